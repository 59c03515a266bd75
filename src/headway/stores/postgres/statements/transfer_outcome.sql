select outcome from /*headway*/batch_outcome where batch = $1::uuid
