/* cuda_fp8.h - cudasim.h has declared what simulated kernels use of it. */
#pragma once
