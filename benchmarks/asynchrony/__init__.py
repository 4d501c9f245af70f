"""How much sooner asynchronous federations learn, where devices differ in speed.

Fashion-MNIST over 2,000 clients, of which 200 train at any time, in virtual time: the
same devices, data and first weights for synchronous FedAvg with over-selection,
FedBuff, FedAsync and Latecomer. Each has learning rates of its own, which as many runs
as those of the others were spent on.
"""
