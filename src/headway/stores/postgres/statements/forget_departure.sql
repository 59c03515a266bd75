delete from /*headway*/departure where batch = $1::uuid
