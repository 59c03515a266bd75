select departure from /*headway*/departure where batch = $1::uuid
