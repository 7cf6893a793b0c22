/* cuda_bf16.h - cudasim.h has declared what simulated kernels use of it. */
#pragma once
