"""The models that a run keeps and exports."""
