/* mixer: the Python type Mixer: penstock_mix for batches that were copied into blocks. */
#pragma once

#include "client/python/src/module.h"

extern PyType_Spec mixer_spec;
