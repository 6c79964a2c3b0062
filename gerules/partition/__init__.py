"""Clusters, borders, files: from a placed graph to one model per cluster, and back.

`cluster` -> `split` -> `write_folder`; `merge_folder` undoes it. Knows ONNX models and plain data only.
"""
