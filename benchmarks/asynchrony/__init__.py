"""The speed of learning in asynchronous federations whose devices differ in speed.

Fashion-MNIST over 2,000 clients, of which 200 train at any time, in virtual time: the
same devices, data and first weights for synchronous FedAvg with over-selection,
FedBuff, FedAsync and Latecomer. Each has its own learning rates, which were searched
for with the same number of runs.
"""
