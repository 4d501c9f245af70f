"""The speed of simulating clients, beside other simulators and bare arithmetic.

Every contender is a process of its own that gets the same file: data, the rows of each
client, the first weights, and the settings. It runs FedAvg for a number of rounds and
writes down the end times of rounds and the model after one of them; its parent process
measures its memory and that model's accuracy.
"""
