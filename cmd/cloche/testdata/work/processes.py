import multiprocessing as mp
import subprocess
from concurrent.futures import ProcessPoolExecutor


def square(n):
    return n * n


if __name__ == "__main__":
    for how in "fork", "spawn", "forkserver":
        with ProcessPoolExecutor(2, mp_context=mp.get_context(how)) as pool:
            assert sum(pool.map(square, range(8))) == 140, how
        with mp.get_context(how).Pool(2) as pool:
            assert pool.map(square, range(4)) == [0, 1, 4, 9], how
    assert subprocess.check_output("seq 3 | tac | xargs echo", shell=True) == b"3 2 1\n"
    print("well")
