# The batches of streams.
foreach(name same_bytes shapes view_groups checkpoints budgets)
	penstock_e2e(${name} ${name}.py)
endforeach()
