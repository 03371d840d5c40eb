/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Preloaded into User-mode Linux. Its kernels before Linux 6.13 keep a processor's extended state (XSTATE) of a guest's
 * process in a buffer of fixed size. Where that of the processor is larger (AMX alone has 8 KiB), the host answers
 * PTRACE_SETREGSET with EFAULT, since it takes a whole state only, and the guest's first process dies ("ptrace set fp
 * regs failed, errno = 14"). Then the state as the host has it is read, the shorter one laid over it, and the whole
 * written. What the guest's kernel does not know stays as it is.
 *
 * Stands in for ptrace(2) of the C library, whose own is not called: a PEEK gives a word that may be -1.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { PEEK_FIRST = 1, PEEK_LAST = 3, GET_SET = 0x4204, SET_SET = 0x4205 };

long syscall(long number, ...);

/* More than any processor has. User-mode Linux calls from one thread. */
static char whole[1 << 16];

static long set_part(pid_t pid, const struct iovec *part)
{
	struct iovec all = { whole, sizeof whole };
	const char *from = part->iov_base;
	int before = errno;

	if (syscall(SYS_ptrace, GET_SET, pid, NT_X86_XSTATE, &all) || part->iov_len >= all.iov_len) {
		errno = EFAULT;
		return -1;
	}
	for (unsigned long at = 0; at < part->iov_len; at++)
		((volatile char *)whole)[at] = from[at];
	errno = before;
	return syscall(SYS_ptrace, SET_SET, pid, NT_X86_XSTATE, &all);
}

__attribute__((visibility("default"))) long ptrace(int request, ...)
{
	va_list words;
	va_start(words, request);
	pid_t pid = va_arg(words, pid_t);
	void *addr = va_arg(words, void *);
	void *data = va_arg(words, void *);
	va_end(words);
	if (request >= PEEK_FIRST && request <= PEEK_LAST) {
		long word, failed = syscall(SYS_ptrace, request, pid, addr, &word);

		if (failed)
			return failed;
		errno = 0;
		return word;
	}
	int before = errno;
	long done = syscall(SYS_ptrace, request, pid, addr, data);
	if (!done || request != SET_SET || (long)addr != NT_X86_XSTATE || errno != EFAULT)
		return done;
	errno = before;
	return set_part(pid, data);
}
