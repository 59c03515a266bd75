delete from /*headway*/luggage where batch = $1::uuid returning content
