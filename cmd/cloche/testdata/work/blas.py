import subprocess, sys

# A process of its own, for the number of threads is read when numpy is loaded.
# OpenBLAS starts no more than there are processors unless told so afterwards.
print(subprocess.run([sys.executable, "-c", """
import ctypes
from concurrent.futures import ThreadPoolExecutor
import numpy as np

library = next(line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line)
blas = ctypes.CDLL(library)
a = np.random.default_rng(1).random((300, 300))
want = np.linalg.solve(a, a @ a)
blas.openblas_set_num_threads(8)
assert np.allclose(want, np.linalg.solve(a, a @ a))
threads = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("Threads:"))
assert threads >= 8, threads
blas.openblas_set_num_threads(1)
with ThreadPoolExecutor(8) as pool:
    for b in pool.map(lambda _: np.linalg.solve(a, a @ a), range(8)):
        assert np.allclose(want, b)
print("well")
"""], capture_output=True, text=True, check=True).stdout, end="")
