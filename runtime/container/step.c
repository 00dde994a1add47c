// The step between libcontainer and Python, inside the sandbox:
//
//     shim step plain|single any|small FILTER|- PROGRAM [ARGUMENT]…
//
// It runs before Go's runtime starts, since only a process with one thread may
// enter a user namespace. It turns huge pages off if they are to be small, loads
// the filter if there is to be one and becomes PROGRAM. What goes wrong is said on standard error, and
// the exit status is 125.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { max_instructions = 4096 };

static void fail(const char *what)
{
	dprintf(2, "step: %s: %s\n", what, strerror(errno));
	_exit(125);
}

static void put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail(name);
	close(fd);
}

// With a single id, libcontainer's namespace has that id as root. Code is to be
// uid 1000 as everywhere else, so there is one more namespace in which it is.
static void become_agent(void)
{
	if (unshare(CLONE_NEWUSER))
		fail("unshare");
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", "1000 0 1");
	put("/proc/self/gid_map", "1000 0 1");
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int c = 0; c <= 63; c++)
		if (prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, c, 0, 0, 0))
			fail("drop bounding set");
	if (syscall(SYS_capset, &header, none))
		fail("drop capabilities");
}

static void load_filter(const char *name)
{
	static struct sock_filter instructions[max_instructions];
	struct sock_fprog program = { .filter = instructions };
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		fail(name);
	n = read(fd, instructions, sizeof instructions);
	if (n <= 0 || n % sizeof *instructions || n == sizeof instructions) {
		errno = EINVAL;
		fail(name);
	}
	close(fd);
	program.len = n / sizeof *instructions;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no_new_privs");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		fail("seccomp");
}

__attribute__((constructor(101))) static void step(int argc, char **argv, char **envp)
{
	if (argc < 6 || strcmp(argv[1], "step"))
		return;
	if (!strcmp(argv[2], "single")) {
		become_agent();
		drop_capabilities();
	}
	// It stays with all that come from this process (PR_SET_THP_DISABLE(2const)).
	if (!strcmp(argv[3], "small") && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) && errno != EINVAL)
		fail("huge pages");
	if (strcmp(argv[4], "-"))
		load_filter(argv[4]);
	execve(argv[5], argv + 5, envp);
	fail(argv[5]);
}
