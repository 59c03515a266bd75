select distinct batch from /*headway*/luggage order by batch limit ?1
