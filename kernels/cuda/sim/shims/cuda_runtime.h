/* cuda_runtime.h - cudasim.h has declared what simulated kernels use of it. */
#pragma once
