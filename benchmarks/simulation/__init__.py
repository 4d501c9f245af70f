"""How fast clients are simulated, beside other simulators and beside bare arithmetic.

Every contender is a process of its own that is handed the same file: data, who holds
which rows, the first weights, and the settings. It runs FedAvg for a number of rounds
and writes down when rounds ended and what the model was after one of them; whoever
started it measures its memory and that model's accuracy.
"""
