# Labels from manifests and from paths into JSON: classes, multi-hot rows, numbers.
penstock_e2e(labels labels.py)
