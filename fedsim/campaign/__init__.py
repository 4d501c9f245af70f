"""What commands share that simulate many times: processes, costs, statistics."""
