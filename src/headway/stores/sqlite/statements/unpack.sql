delete from /*headway*/luggage where batch = ?1 returning content
