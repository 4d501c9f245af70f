"""Models of Hugging Face's transformers and PEFT, and their trainers, as workloads."""

from fedtorch.hugging_face.workload import HuggingFaceWorkload as HuggingFaceWorkload
