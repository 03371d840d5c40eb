/* Threads that change what a call names while it is judged: `race KIND TRIES`, with ports ALLOWED and DENIED.
 * Says how many calls were let through, and how many were refused. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct sockaddr_in good, bad;
static volatile struct sockaddr_in shared;
static struct iovec parts[2];
static struct msghdr header;
static int ends[2], outer, socket_fd;
static volatile int stop;
static unsigned state = 1;

static int number(const char *name) { return atoi(getenv(name)); }

static int chance(void) { state = state * 1103515245 + 12345; return state >> 16 & 1; }

static void set_address(int which) { shared.sin_port = which ? bad.sin_port : good.sin_port; }

static void set_header(int which) {
    *(void *volatile *)&header.msg_name = which ? &bad : &good;
    *(volatile size_t *)&parts[0].iov_len = which ? 1 : 2;
    *(void *volatile *)&header.msg_iov = &parts[which];
}

static void set_descriptor(int which) { dup2(which ? socket_fd : ends[0], outer); }

static void (*set)(int);

static void *change(void *unused) {
    (void)unused;
    for (int which = 0; !stop; which = !which) set(which);
    return NULL;
}

static int tcp(void) {
    struct linger reset = {1, 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return fd;
}

static long connected(void) {
    int fd = tcp();
    long done = connect(fd, (void *)&shared, sizeof shared);
    int error = errno;
    close(fd);
    errno = error;
    return done;
}
static long sent_to(void) { return sendto(socket_fd, "x", 1, 0, (void *)&shared, sizeof shared); }
static long sent_message(void) { return sendmsg(socket_fd, &header, 0); }
static long sent_messages(void) {
    static struct mmsghdr many[2];
    many[0].msg_hdr = many[1].msg_hdr = header;
    return sendmmsg(socket_fd, many, 2, 0);
}
/* Over a connected UNIX socket no address matters; over the other one it does. */
static long swapped(void) { return sendto(outer, "x", 1, MSG_DONTWAIT, (void *)&bad, sizeof bad); }
static long swapped_message(void) {
    struct iovec part = {"x", 1};
    struct msghdr m = {.msg_name = &bad, .msg_namelen = sizeof bad, .msg_iov = &part, .msg_iovlen = 1};
    return sendmsg(outer, &m, MSG_DONTWAIT);
}
/* A connection is dissolved meanwhile, so that fast open would make another one. */
static void set_connection(int which) {
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    if (which) connect(socket_fd, (void *)&good, sizeof good); else connect(socket_fd, &none, sizeof none);
}
static long opened_fast(void) { return sendto(socket_fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (void *)&bad, sizeof bad); }

static const struct { const char *name; void (*set)(int); long (*call)(void); int kind; } kinds[] = {
    {"connect", set_address, connected, SOCK_STREAM},    {"sendto", set_address, sent_to, SOCK_DGRAM},
    {"sendmsg", set_header, sent_message, SOCK_DGRAM},   {"sendmmsg", set_header, sent_messages, SOCK_DGRAM},
    {"dup2", set_descriptor, swapped, SOCK_DGRAM},       {"dup2_message", set_descriptor, swapped_message, SOCK_DGRAM},
    {"fastopen", set_connection, opened_fast, SOCK_STREAM},
};

int main(int count, char **words) {
    int tries = atoi(words[2]), through = 0, refused = 0;
    (void)count;
    good.sin_family = bad.sin_family = AF_INET;
    good.sin_addr.s_addr = bad.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    good.sin_port = htons(number("ALLOWED")), bad.sin_port = htons(number("DENIED"));
    memcpy((void *)&shared, &good, sizeof good);
    parts[0] = parts[1] = (struct iovec){"hello", 2};
    header = (struct msghdr){.msg_name = &good, .msg_namelen = sizeof good, .msg_iov = parts, .msg_iovlen = 1};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        if (strcmp(kinds[at].name, words[1])) continue;
        socket_fd = kinds[at].kind == SOCK_STREAM ? tcp() : socket(AF_INET, SOCK_DGRAM, 0);
        outer = dup(socket_fd);
        set = kinds[at].set;
        pthread_t thread;
        pthread_create(&thread, NULL, change, NULL);
        for (int n = 0; n < tries; n++) {
            set(chance());
            long done = kinds[at].call();
            through += done >= 0, refused += done < 0 && errno == EACCES;
        }
        stop = 1;
        pthread_join(thread, NULL);
        printf("%d %d\n", through, refused);
        return 0;
    }
    return 2;
}
