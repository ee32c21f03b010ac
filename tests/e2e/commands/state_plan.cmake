# `penstock state`, `penstock plan`, and how replay and bench treat ranks.
if(TARGET penstock)
	penstock_e2e(state_plan state_plan.py)
endif()
