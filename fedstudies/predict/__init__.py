"""``fedsim predict``: the throughput of many clients, from what one client did."""
