/* mixer: Mixer, penstock_mix for batches in blocks. */
#pragma once

#include "client/python/src/module.h"

extern PyType_Spec mixer_spec;
