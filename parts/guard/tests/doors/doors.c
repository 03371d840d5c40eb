/* Each door by which a program could reach a network past its supervisor: `doors NAME`, with where to go in the
 * environment. Says `open` where it holds something that reaches without an address; else the listener counts. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char *self;
/* Where another process's memory would be written. */
static char spot[16] = "untouched";

static int number(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }

static void say(const char *what) { printf("%s\n", what); fflush(stdout); }

static int tell(long result) {
    if (result < 0) printf("%s\n", strerrorname_np(errno));
    fflush(stdout);
    return result < 0;
}

static void held(long result) { if (!tell(result)) say("open"); }

static struct sockaddr_in in4(const char *host, int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &a.sin_addr);
    return a;
}

static struct sockaddr_in6 in6(const char *host, int port) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    inet_pton(AF_INET6, host, &a.sin6_addr);
    return a;
}

static socklen_t path_address(struct sockaddr_un *a, const char *name) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    snprintf(a->sun_path, sizeof a->sun_path, "%s/%s", getenv("FOLDER"), name);
    return sizeof *a;
}

static socklen_t abstract_address(struct sockaddr_un *a, const char *kind) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%s", getenv("ABSTRACT"), kind);
    return offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

static int tcp4(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int tcp6(void) { return socket(AF_INET6, SOCK_STREAM, 0); }
static int udp4(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
static int udp6(void) { return socket(AF_INET6, SOCK_DGRAM, 0); }

static void to4(int fd, const char *host, int port) {
    struct sockaddr_in a = in4(host, port);
    tell(connect(fd, (void *)&a, sizeof a));
}

static void to6(int fd, const char *host, int port) {
    struct sockaddr_in6 a = in6(host, port);
    tell(connect(fd, (void *)&a, sizeof a));
}

static void dissolve(int fd) {
    struct sockaddr a = {.sa_family = AF_UNSPEC};
    tell(connect(fd, &a, sizeof a));
}

static long message(int fd, void *name, socklen_t size, void *control, size_t length, int flags) {
    struct iovec parts[2] = {{"he", 2}, {"llo", 3}};
    struct msghdr m = {.msg_name = name, .msg_namelen = size, .msg_iov = parts, .msg_iovlen = 2,
                       .msg_control = control, .msg_controllen = length};
    return sendmsg(fd, &m, flags);
}

static long messages(int fd, void *name, socklen_t size, int flags) {
    struct iovec part = {"hello", 5};
    struct mmsghdr m[2] = {{.msg_hdr = {.msg_name = name, .msg_namelen = size, .msg_iov = &part, .msg_iovlen = 1}}};
    m[1] = m[0];
    return sendmmsg(fd, m, 2, flags);
}

/* TCP */
static void connect4(void) { to4(tcp4(), "127.0.0.1", number("TCP4")); }
static void connect6(void) { to6(tcp6(), "::1", number("TCP6")); }
static void connect_mapped(void) { to6(tcp6(), "::ffff:127.0.0.1", number("TCP4")); }
static void connect_any4(void) { to4(tcp4(), "0.0.0.0", number("TCP4")); }
static void connect_any6(void) { to6(tcp6(), "::", number("TCP6")); }
static void connect_any_mapped(void) { to6(tcp6(), "::ffff:0.0.0.0", number("TCP4")); }
static void connect_again(void) {
    int fd = tcp4();
    dissolve(fd);
    to4(fd, "127.0.0.1", number("TCP4"));
    dissolve(fd);
    to4(fd, "127.0.0.1", number("TCP4"));
}
static void connect_scope(void) {
    struct sockaddr_in6 a = in6("::1", number("TCP6"));
    a.sin6_scope_id = 1;
    tell(connect(tcp6(), (void *)&a, sizeof a));
}
static void connect_without_scope(void) {
    struct sockaddr_in6 a = in6("::1", number("TCP6"));
    tell(connect(tcp6(), (void *)&a, 24));
}
static void connect_upper_bits(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    tell(syscall(SYS_connect, tcp4() | 0x700000000L, &a, sizeof a | 0x900000000L));
}
/* :: of a socket that is bound to an address of IPv4 is the loopback address of that. */
static void connect_any_bound(void) {
    int fd = tcp6();
    struct sockaddr_in6 a = in6("::ffff:127.0.0.1", 0);
    tell(bind(fd, (void *)&a, sizeof a));
    to6(fd, "::", number("TCP4"));
}
static void connect_nonblocking(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    to4(fd, "127.0.0.1", number("TCP4"));
    usleep(1000);
}
static void fastopen_sendto(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    tell(sendto(tcp4(), "hello", 5, MSG_FASTOPEN, (void *)&a, sizeof a));
}
static void fastopen_sendmsg(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    tell(message(tcp4(), &a, sizeof a, NULL, 0, MSG_FASTOPEN));
}
static void fastopen_sendmmsg(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    tell(messages(tcp4(), &a, sizeof a, MSG_FASTOPEN));
}
static void fastopen_option(void) {
    int fd = tcp4(), on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on);
    to4(fd, "127.0.0.1", number("TCP4"));
    tell(write(fd, "hello", 5));
}
static void mptcp(void) { to4(socket(AF_INET, SOCK_STREAM, 262), "127.0.0.1", number("TCP4")); }
static void mptcp_fastopen(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    tell(sendto(socket(AF_INET, SOCK_STREAM, 262), "hello", 5, MSG_FASTOPEN, (void *)&a, sizeof a));
}

/* UDP */
static void udp_sendto(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("UDP4"));
    tell(sendto(udp4(), "hello", 5, 0, (void *)&a, sizeof a));
}
static void udp_sendmsg(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("UDP4"));
    tell(message(udp4(), &a, sizeof a, NULL, 0, 0));
}
static void udp_sendmmsg(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("UDP4"));
    tell(messages(udp4(), &a, sizeof a, 0));
}
static void udp_any(void) {
    struct sockaddr_in a = in4("0.0.0.0", number("UDP4"));
    tell(sendto(udp4(), "hello", 5, 0, (void *)&a, sizeof a));
}
static void udp_unspec(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("UDP4"));
    a.sin_family = AF_UNSPEC;
    tell(sendto(udp4(), "hello", 5, 0, (void *)&a, sizeof a));
}
static void udp_unspec_any(void) {
    struct sockaddr_in a = in4("0.0.0.0", number("UDP4"));
    a.sin_family = AF_UNSPEC;
    tell(message(udp4(), &a, sizeof a, NULL, 0, 0));
}
static void udp_mapped(void) {
    struct sockaddr_in6 a = in6("::ffff:127.0.0.1", number("UDP4"));
    tell(sendto(udp6(), "hello", 5, 0, (void *)&a, sizeof a));
}
static void udp6_to_4(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("UDP4"));
    tell(sendto(udp6(), "hello", 5, 0, (void *)&a, sizeof a));
}
static void udp6_sendto(void) {
    struct sockaddr_in6 a = in6("::1", number("UDP6"));
    tell(sendto(udp6(), "hello", 5, 0, (void *)&a, sizeof a));
}
static void udp6_any(void) {
    struct sockaddr_in6 a = in6("::", number("UDP6"));
    tell(message(udp6(), &a, sizeof a, NULL, 0, 0));
}
static void udp_connect(void) {
    int fd = udp4();
    to4(fd, "127.0.0.1", number("UDP4"));
    tell(write(fd, "hello", 5));
}
static void udp_connected_elsewhere(void) {
    int fd = udp4();
    to4(fd, "127.0.0.1", number("UDP4"));
    dissolve(fd);
    struct sockaddr_in a = in4("127.0.0.1", number("UDP4"));
    tell(sendto(fd, "hello", 5, 0, (void *)&a, sizeof a));
}
/* Which nobody is asked about: the C library looks for its address so. */
static void udp_port_zero(void) {
    int fd = udp4();
    to4(fd, "127.0.0.1", 0);
    held(write(fd, "hello", 5));
}
static void udp_pktinfo(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("UDP4"));
    char room[CMSG_SPACE(sizeof(struct in_pktinfo))] = {0};
    struct cmsghdr *c = (void *)room;
    struct in_pktinfo info = {.ipi_ifindex = 1};
    c->cmsg_len = CMSG_LEN(sizeof info), c->cmsg_level = IPPROTO_IP, c->cmsg_type = IP_PKTINFO;
    memcpy(CMSG_DATA(c), &info, sizeof info);
    tell(message(udp4(), &a, sizeof a, room, sizeof room, 0));
}
static void udp6_pktinfo(void) {
    struct sockaddr_in6 a = in6("::1", number("UDP6"));
    char room[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
    struct cmsghdr *c = (void *)room;
    struct in6_pktinfo info = {.ipi6_ifindex = 1};
    c->cmsg_len = CMSG_LEN(sizeof info), c->cmsg_level = IPPROTO_IPV6, c->cmsg_type = IPV6_PKTINFO;
    memcpy(CMSG_DATA(c), &info, sizeof info);
    tell(message(udp6(), &a, sizeof a, room, sizeof room, 0));
}

/* Ways, groups, listeners, and sockets that need no address */
static void bind_to_device(void) { held(setsockopt(tcp4(), SOL_SOCKET, SO_BINDTODEVICE, "lo", 3)); }
static void bind_to_index(void) { int lo = 1; held(setsockopt(udp4(), SOL_SOCKET, 62, &lo, sizeof lo)); }
static void unicast_interface(void) { int lo = htonl(1); held(setsockopt(udp4(), IPPROTO_IP, 50, &lo, sizeof lo)); }
static void transparent(void) { int on = 1; held(setsockopt(tcp4(), IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on)); }
static void source_route(void) {
    unsigned char route[] = {131, 7, 4, 127, 0, 0, 1, 0};
    held(setsockopt(udp4(), IPPROTO_IP, IP_OPTIONS, route, sizeof route));
}
static void routing_header(void) { held(setsockopt(udp6(), IPPROTO_IPV6, IPV6_RTHDR, NULL, 0)); }
static void flow_label(void) {
    struct {
        struct in6_addr to;
        uint32_t label;
        uint8_t action, share;
        uint16_t flags, expires, linger;
        uint32_t pad;
    } one = {.to = in6("::1", 0).sin6_addr, .share = 1, .flags = 1};
    held(setsockopt(udp6(), IPPROTO_IPV6, 32, &one, sizeof one));
    if (!one.label) say("no label");
}
static void sticky_interface(void) {
    struct in6_pktinfo info = {.ipi6_ifindex = 1};
    held(setsockopt(udp6(), IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info));
}
static void join(void) {
    struct ip_mreqn group = {.imr_ifindex = 1};
    inet_pton(AF_INET, "239.1.2.3", &group.imr_multiaddr);
    held(setsockopt(udp4(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
}
static void join_any_family(void) {
    struct group_req group = {.gr_interface = 1};
    struct sockaddr_in a = in4("239.1.2.3", 0);
    memcpy(&group.gr_group, &a, sizeof a);
    held(setsockopt(udp4(), IPPROTO_IP, MCAST_JOIN_GROUP, &group, sizeof group));
}
static void join6(void) {
    struct ipv6_mreq group = {.ipv6mr_interface = 1};
    inet_pton(AF_INET6, "ff02::4711", &group.ipv6mr_multiaddr);
    held(setsockopt(udp6(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group));
}
static void listen_unbound(void) { held(listen(tcp4(), 5)); }
static void listen_unbound6(void) { held(listen(tcp6(), 5)); }
static void listen_after_failed_bind(void) {
    int fd = tcp4();
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    tell(bind(fd, (void *)&a, sizeof a));
    held(listen(fd, 5));
}
static void bind_port(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("FREE"));
    held(bind(tcp4(), (void *)&a, sizeof a));
}
static void bind_unspec(void) {
    struct sockaddr_in a = in4("0.0.0.0", number("FREE"));
    a.sin_family = AF_UNSPEC;
    held(bind(udp4(), (void *)&a, sizeof a));
}
static void raw(void) { held(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)); }
static void raw6(void) { held(socket(AF_INET6, SOCK_RAW, IPPROTO_UDP)); }
/* Which then sends packets of any protocol. */
static void header_included(void) {
    int on = 1, fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    tell(fd);
    held(setsockopt(fd, IPPROTO_IP, IP_HDRINCL, &on, sizeof on));
}
static void header_included6(void) {
    int on = 1, fd = socket(AF_INET6, SOCK_RAW, IPPROTO_UDP);
    tell(fd);
    held(setsockopt(fd, IPPROTO_IPV6, 36, &on, sizeof on));
}
static void packet(void) { held(socket(AF_PACKET, SOCK_RAW, 0)); }
static void packet_old(void) { held(socket(AF_INET, SOCK_PACKET, htons(3))); }
/* In a network of its own, where nobody sees it. */
static void tunnel(void) {
    struct ifreq wanted = {.ifr_name = "door%d", .ifr_flags = IFF_TAP | IFF_NO_PI};
    if (unshare(CLONE_NEWNET)) tell(-1);
    int fd = open("/dev/net/tun", O_RDWR);
    if (fd < 0) tell(-1);
    held(ioctl(fd, TUNSETIFF, &wanted));
}
/* Has root's program make a key: where there is none, the kernel notes the failure as a key. */
static void key_upcall(void) {
    char name[64], line[512];
    snprintf(name, sizeof name, "netloom-door-%d", getpid());
    syscall(SYS_request_key, "user", name, "", 0);
    tell(-1);
    FILE *keys = fopen("/proc/keys", "r");
    while (keys && fgets(line, sizeof line, keys)) if (strstr(line, name)) say("open");
}
static void ping(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
    struct sockaddr_in a = in4("127.0.0.1", 0);
    unsigned char echo[8] = {8};
    held(sendto(fd, echo, 8, 0, (void *)&a, sizeof a));
}
static void netlink_sockets(void) { held(socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG)); }
static void netlink_pair(void) { held(socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK)); }
static void vsock(void) { held(socket(AF_VSOCK, SOCK_STREAM, 0)); }
static void crypto(void) { held(socket(38, SOCK_SEQPACKET, 0)); }

/* UNIX sockets */
static void unix_path(void) {
    struct sockaddr_un a;
    tell(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, path_address(&a, "stream")));
}
static void unix_relative(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "stream"};
    tell(chdir(getenv("FOLDER")));
    tell(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, 2 + 6));
}
static void unix_abstract(void) {
    struct sockaddr_un a;
    tell(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, abstract_address(&a, "stream")));
}
static void unix_datagram(void) {
    struct sockaddr_un a;
    socklen_t size = path_address(&a, "datagram");
    tell(sendto(socket(AF_UNIX, SOCK_DGRAM, 0), "hello", 5, 0, (void *)&a, size));
}
static void unix_datagram_abstract(void) {
    struct sockaddr_un a;
    socklen_t size = abstract_address(&a, "datagram");
    tell(message(socket(AF_UNIX, SOCK_DGRAM, 0), &a, size, NULL, 0, 0));
}
static void unix_datagram_pair(void) {
    struct sockaddr_un a;
    int pair[2];
    tell(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    tell(connect(pair[0], (void *)&a, path_address(&a, "datagram")));
    tell(write(pair[0], "hello", 5));
}
static void unix_bind(void) {
    struct sockaddr_un a;
    held(bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, path_address(&a, "mine")));
}

/* Other doors to the kernel */
static void io_uring(void) {
    struct io_uring_params p = {0};
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    int ring = syscall(SYS_io_uring_setup, 4, &p);
    if (tell(ring)) return;
    size_t size = p.sq_off.array + p.sq_entries * 4;
    char *sq = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *e = mmap(0, p.sq_entries * sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    *e = (struct io_uring_sqe){.opcode = IORING_OP_CONNECT, .fd = tcp4(), .addr = (uintptr_t)&a, .off = sizeof a};
    ((unsigned *)(sq + p.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    tell(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
}
static void second_supervisor(void) {
    struct sock_filter allow = {0x06, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog program = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    held(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}
static void another_name(void) {
    struct prctl_mm_map map;
    unsigned size;
    memset(&map, 0, sizeof map);
    held(prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0));
}
static void typed_ahead(void) { if (ioctl(0, TIOCSTI, "x") < 0 && errno != EPERM) say("open"); else tell(-1); }
static void trace(void) { held(ptrace(PTRACE_SEIZE, number("OTHER"), 0, 0)); }
static void attach(void) { held(ptrace(PTRACE_ATTACH, number("OTHER"), 0, 0)); }
static void write_memory(void) {
    struct iovec from = {"changed", 8}, to = {spot, 8};
    held(process_vm_writev(number("OTHER"), &from, 1, &to, 1, 0));
}
static void open_memory(void) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", number("OTHER"));
    held(open(name, O_RDWR));
}
static void take_descriptor(void) {
    int other = syscall(SYS_pidfd_open, number("OTHER"), 0);
    held(syscall(SYS_pidfd_getfd, other, 1, 0));
}
static void signal_process(void) { held(kill(number("OTHER"), SIGWINCH)); }
static void signal_thread(void) { held(syscall(SYS_tgkill, number("OTHER"), number("OTHER"), SIGWINCH)); }
static void signal_queued(void) { union sigval none = {0}; held(sigqueue(number("OTHER"), SIGWINCH, none)); }
static void signal_by_descriptor(void) {
    held(syscall(SYS_pidfd_send_signal, syscall(SYS_pidfd_open, number("OTHER"), 0), SIGWINCH, NULL, 0));
}
/* Its own limits stay its own; those of another process would end that one. */
static void limit_process(void) {
    struct rlimit limit, same;
    if (prlimit(0, RLIMIT_CPU, NULL, &limit) || prlimit(0, RLIMIT_CPU, &limit, &same)) say("open");
    held(prlimit(number("OTHER"), RLIMIT_CPU, &limit, NULL));
}
static void wait_for_end(void) { printf("%s\n", spot); fflush(stdout); for (;;) pause(); }

/* Processes and threads */
static void *as_thread(void *door) { ((void (*)(void))door)(); return NULL; }
static void in_thread(void (*door)(void)) {
    pthread_t t;
    pthread_create(&t, NULL, as_thread, (void *)door);
    pthread_join(t, NULL);
}
static void thread(void) { in_thread(connect4); }
static pthread_barrier_t split;
static int shared;
static void *of_its_own_table(void *unused) {
    (void)unused;
    tell(unshare(CLONE_FILES));
    int fd = tcp4();
    dup2(fd, shared);
    pthread_barrier_wait(&split);
    to4(shared, "127.0.0.1", number("TCP4"));
    return NULL;
}
/* The thread's descriptor is TCP, its leader's of the same number is a UNIX socket. */
static void own_descriptors(void) {
    pthread_t t;
    shared = socket(AF_UNIX, SOCK_STREAM, 0);
    pthread_barrier_init(&split, NULL, 2);
    pthread_create(&t, NULL, of_its_own_table, NULL);
    pthread_barrier_wait(&split);
    pthread_join(t, NULL);
}
static void *after_leader(void *leader) {
    pthread_join(*(pthread_t *)leader, NULL);
    connect4();
    exit(0);
}
static void without_leader(void) {
    static pthread_t leader;
    pthread_t t;
    leader = pthread_self();
    pthread_create(&t, NULL, after_leader, &leader);
    pthread_exit(NULL);
}
static void child(void) { if (!fork()) { connect4(); _exit(0); } wait(NULL); }
static void daemon_child(void) {
    int ends[2];
    char byte;
    pipe(ends);
    if (!fork()) {
        setsid();
        if (!fork()) { connect4(); udp_sendto(); }
        _exit(0);
    }
    close(ends[1]);
    wait(NULL);
    read(ends[0], &byte, 1);
}
static void vfork_child(void) { if (!vfork()) { connect4(); _exit(0); } wait(NULL); }
static void spawned(void) {
    pid_t pid;
    char *words[] = {self, "connect4", NULL};
    tell(-posix_spawn(&pid, self, NULL, NULL, words, environ));
    waitpid(pid, NULL, 0);
}
static void executed(void) { execl(self, self, "connect4", NULL); }
static void executed_by_thread(void) { in_thread(executed); }
static void not_dumpable(void) { prctl(PR_SET_DUMPABLE, 0); connect4(); udp_sendmsg(); }
static void own_user(void) { tell(unshare(CLONE_NEWUSER)); connect4(); udp_sendmsg(); }
static void connects_often(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    for (int n = 0; n < 3; n++) if (!tell(connect(tcp4(), (void *)&a, sizeof a))) say("yes");
}
static void leaves_mounts(void) { connects_often(); tell(unshare(CLONE_NEWUSER | CLONE_NEWNS)); connects_often(); }
/* A socket of the outer network that is used from within a network of its own. */
static void own_network(void) {
    int fd = tcp4();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) tell(-1);
    to4(fd, "127.0.0.1", number("TCP4"));
}
static void own_processes(void) {
    tell(unshare(CLONE_NEWUSER | CLONE_NEWPID));
    child();
}
/* An unconnected socket from outside, over standard input. */
static void received(void) {
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (tell(recvmsg(0, &m, 0))) return;
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    to4(fd, "127.0.0.1", number("TCP4"));
}

/* Other instruction sets: numbers of i386 by `int 0x80`, with structures of 32 bits, and of x32 */
#if defined(__x86_64__)
static long old(long n, long b, long c, long d, long s, long t, long p) {
    long result;
    __asm__ volatile("push %%rbp\n\tmov %[p], %%rbp\n\tint $0x80\n\tpop %%rbp"
        : "=a"(result)
        : "a"(n), "b"(b), "c"(c), "d"(d), "S"(s), "D"(t), [p] "r"((register_t)p)
        : "memory", "r8", "r9", "r10", "r11", "cc");
    errno = -(int)result;
    return (int)result < 0 ? -1 : (int)result;
}
/* Memory that 32 bits address. */
struct low {
    struct sockaddr_in a;
    uint32_t words[8];
    struct { uint32_t base, length; } part;
    struct { uint32_t name, size, parts, count, control, length, flags, sent; } m;
    char data[8];
};
static struct low *low(const char *port) {
    struct low *l = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    l->a = in4("127.0.0.1", number(port));
    strcpy(l->data, "hello");
    l->part.base = (uintptr_t)l->data, l->part.length = 5;
    l->m.name = (uintptr_t)&l->a, l->m.size = sizeof l->a;
    l->m.parts = (uintptr_t)&l->part, l->m.count = 1;
    return l;
}
#define AT(x) ((uintptr_t)(x))
static long call(struct low *l, int n, long a, long b, long c, long d, long e, long f) {
    uint32_t words[6] = {a, b, c, d, e, f};
    memcpy(l->words, words, sizeof words);
    return old(102, n, AT(l->words), 0, 0, 0, 0);
}
static void i386_connect(void) { struct low *l = low("TCP4"); tell(old(362, tcp4(), AT(&l->a), sizeof l->a, 0, 0, 0)); }
static void i386_socket(void) {
    struct low *l = low("TCP4");
    tell(old(362, old(359, 2, 1, 0, 0, 0, 0), AT(&l->a), sizeof l->a, 0, 0, 0));
}
static void i386_sendto(void) { struct low *l = low("UDP4"); tell(old(369, udp4(), AT(l->data), 5, 0, AT(&l->a), sizeof l->a)); }
static void i386_sendmsg(void) { struct low *l = low("UDP4"); tell(old(370, udp4(), AT(&l->m), 0, 0, 0, 0)); }
static void i386_sendmmsg(void) { struct low *l = low("UDP4"); tell(old(345, udp4(), AT(&l->m), 1, 0, 0, 0)); }
static void i386_fastopen(void) { struct low *l = low("TCP4"); tell(old(370, tcp4(), AT(&l->m), MSG_FASTOPEN, 0, 0, 0)); }
static void i386_listen(void) { held(old(363, tcp4(), 5, 0, 0, 0, 0)); }
static void i386_raw(void) { held(old(359, AF_INET, SOCK_RAW, 1, 0, 0, 0)); }
static void i386_device(void) { struct low *l = low("TCP4"); strcpy(l->data, "lo"); held(old(366, tcp4(), 1, 25, AT(l->data), 3, 0)); }
static void i386_io_uring(void) { struct low *l = low("TCP4"); held(old(425, 4, AT(l) + 1024, 0, 0, 0, 0)); }
static void socketcall_connect(void) { struct low *l = low("TCP4"); tell(call(l, 3, tcp4(), AT(&l->a), sizeof l->a, 0, 0, 0)); }
static void socketcall_socket(void) {
    struct low *l = low("TCP4");
    tell(call(l, 3, call(l, 1, 2, 1, 0, 0, 0, 0), AT(&l->a), sizeof l->a, 0, 0, 0));
}
static void socketcall_sendto(void) { struct low *l = low("UDP4"); tell(call(l, 11, udp4(), AT(l->data), 5, 0, AT(&l->a), sizeof l->a)); }
static void socketcall_sendmsg(void) { struct low *l = low("UDP4"); tell(call(l, 16, udp4(), AT(&l->m), 0, 0, 0, 0)); }
static void socketcall_sendmmsg(void) { struct low *l = low("UDP4"); tell(call(l, 20, udp4(), AT(&l->m), 1, 0, 0, 0)); }
static void socketcall_listen(void) { struct low *l = low("TCP4"); held(call(l, 4, tcp4(), 5, 0, 0, 0, 0)); }
static void socketcall_device(void) { struct low *l = low("TCP4"); strcpy(l->data, "lo"); held(call(l, 14, tcp4(), 1, 25, AT(l->data), 3, 0)); }
static void x32_connect(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("TCP4"));
    tell(syscall(0x40000000 | 42, tcp4(), &a, sizeof a));
}
static void x32_sendmsg(void) {
    struct low *l = low("UDP4");
    tell(syscall(0x40000000 | 518, udp4(), &l->m, 0));
}
#endif

/* Signals and time limits: what a call to a listener that answers nobody returns */
static volatile int signals;
static void handler(int number) {
    (void)number;
    if (++signals == 3) { say("three signals"); _exit(0); }
}
static void nothing(int number) { (void)number; }
/* A signal every 50 ms: one of them meets the call, however late that is. */
static void again_and_again(int flags, void (*by)(int)) {
    struct sigaction act = {.sa_handler = by, .sa_flags = flags};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec when = {.it_value = {0, 50000000}, .it_interval = {0, 50000000}};
    timer_t timer;
    sigaction(SIGUSR1, &act, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &when, NULL);
}
static void interrupted(void) { again_and_again(0, nothing); to4(tcp4(), "127.0.0.1", number("FULL")); }
static void restarted(void) { again_and_again(SA_RESTART, handler); to4(tcp4(), "127.0.0.1", number("FULL")); }
static void asked_again(void) { again_and_again(SA_RESTART, nothing); to4(tcp4(), "127.0.0.1", number("FULL")); }
/* A process has stopped when all of its threads have, also one that connects; that one waits on after the stop. */
static int tid_to;
static void *connects(void *unused) {
    pid_t tid = (pid_t)syscall(SYS_gettid);
    if (write(tid_to, &tid, sizeof tid) == sizeof tid) to4(tcp4(), "127.0.0.1", number("FULL"));
    return unused;
}
static char state_of(pid_t pid, pid_t tid) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, line, sizeof line - 1) < 0) return '?';
    close(fd);
    char *end = strrchr(line, ')');
    return end ? end[2] : '?';
}
static void stopped(void) {
    int ends[2], status;
    pid_t tid, pid;
    alarm(60);
    if (pipe(ends)) return;
    if ((pid = fork()) == 0) {
        pthread_t thread;
        alarm(60);
        tid_to = ends[1];
        pthread_create(&thread, NULL, connects, NULL);
        pthread_join(thread, NULL);
        _exit(0);
    }
    if (read(ends[0], &tid, sizeof tid) != sizeof tid) return;
    for (int n = 0; n < 3; n++) {
        while (state_of(pid, tid) != 'S') sched_yield();
        kill(pid, SIGSTOP);
        waitpid(pid, &status, WUNTRACED);
        say(WIFSTOPPED(status) ? "stopped" : "ended");
        kill(pid, SIGCONT);
        waitpid(pid, &status, WCONTINUED);
        say(WIFCONTINUED(status) ? "goes on" : "ended");
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}
static void time_limit(void) {
    struct timeval limit = {0, 50000};
    int fd = tcp4();
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    to4(fd, "127.0.0.1", number("FULL"));
}
static void time_limit_and_signal(void) {
    struct timeval limit = {50, 0};
    int fd = tcp4();
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    again_and_again(SA_RESTART, nothing);
    to4(fd, "127.0.0.1", number("FULL"));
}
static void in_progress(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    to4(fd, "127.0.0.1", number("FULL"));
    to4(fd, "127.0.0.1", number("FULL"));
}
static void refused(void) { to4(tcp4(), "127.0.0.1", number("FREE")); to4(99, "127.0.0.1", 1); to4(1, "127.0.0.1", 1); }
static void faults(void) {
    struct sockaddr_in a = in4("127.0.0.1", number("FREE"));
    tell(connect(tcp4(), (void *)8, sizeof a));
    tell(connect(tcp4(), (void *)&a, -1));
    tell(connect(tcp4(), (void *)&a, 500));
    tell(connect(tcp4(), (void *)&a, 3));
    tell(sendmsg(udp4(), (void *)8, 0));
    tell(message(udp4(), &a, 3, NULL, 0, 0));
    tell(message(udp4(), NULL, 0, NULL, 0, 0));
    tell(bind(udp4(), (void *)&a, 1));
    tell(listen(udp4(), 1));
    tell(message(tcp4(), NULL, 0, NULL, 0, MSG_NOSIGNAL));
}
/* Messages of which the fourth cannot be sent, for each reason: what is said, and how many are told of. */
static void fourth(const char *what, struct mmsghdr *all, struct sockaddr_in *to, int count) {
    int got = sendmmsg(udp4(), all, count, 0);
    printf("%s %d %s", what, got, got < 0 ? strerrorname_np(errno) : "");
    for (int n = 0; n < 3; n++) printf(" %u", all[n].msg_len);
    say("");
}
static void bad_fourth(void) {
    struct sockaddr_in to = in4("127.0.0.1", number("UDP4")), nowhere = in4("127.0.0.1", 0), other = to;
    struct iovec part = {"hello", 5}, fault = {(void *)8, 5};
    struct mmsghdr good = {.msg_hdr = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1}}, bad[7], all[5];
    const char *whys[] = {"pointer", "short", "negative", "port", "family", "data", "vectors"};
    other.sin_family = 77;
    for (int n = 0; n < 7; n++) bad[n] = good;
    bad[0].msg_hdr.msg_name = (void *)8, bad[1].msg_hdr.msg_namelen = 3, bad[2].msg_hdr.msg_namelen = -1;
    bad[3].msg_hdr.msg_name = &nowhere, bad[4].msg_hdr.msg_name = &other;
    bad[5].msg_hdr.msg_iov = &fault, bad[6].msg_hdr.msg_iov = (void *)8;
    for (int at = 0; at <= 3; at += 3)
        for (int n = 0; n < 7; n++) {
            for (int m = 0; m < 5; m++) all[m] = m == at ? bad[n] : good;
            fourth(whys[n], all, &to, 5);
        }
    /* The memory ends behind the third, behind the fourth's message, and where its length would be written. */
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    size_t ends[] = {0, 16, sizeof(struct msghdr)};
    for (int n = 0; n < 3; n++) {
        char *first = pages + 4096 - 3 * sizeof good - ends[n];
        for (int m = 0; m < 4; m++) memcpy(first + m * sizeof good, &good, m < 3 ? sizeof good : ends[n]);
        fourth("end", (void *)first, &to, 4);
    }
    char *last = pages + 4096 - sizeof(struct msghdr);
    memcpy(last, &good, sizeof(struct msghdr));
    tell(sendmmsg(udp4(), (void *)last, 1, 0));
}
/* Messages of which the third goes where nothing may. */
static void denied_third(void) {
    struct sockaddr_in to = in4("127.0.0.1", number("UDP4")), denied = in4("127.0.0.9", number("UDP4"));
    struct iovec part = {"hello", 5};
    struct mmsghdr all[5];
    for (int n = 0; n < 5; n++)
        all[n] = (struct mmsghdr){.msg_hdr = {.msg_name = n == 2 ? &denied : &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1}};
    fourth("first", all, &to, 4);
    fourth("third", all + 2, &to, 3);
}
/* More than is copied at once, and more than a reader takes. */
static void large(void) {
    static char data[5 << 20];
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (!fork()) {
        long all = 0, got;
        close(pair[0]);
        while ((got = read(pair[1], data, sizeof data)) > 0) all += got;
        printf("read %ld\n", all);
        fflush(stdout);
        _exit(0);
    }
    close(pair[1]);
    struct iovec part = {data, sizeof data};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    printf("sent %zd\n", sendmsg(pair[0], &m, 0));
    fflush(stdout);
    close(pair[0]);
    wait(NULL);
}
static void names(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "mine"};
    socklen_t size = sizeof a;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    chdir(getenv("FOLDER"));
    tell(bind(fd, (void *)&a, 2 + 4));
    getsockname(fd, (void *)&a, &size);
    printf("%s %d\n", a.sun_path, size);
}

static void names_elsewhere(void) { unshare(CLONE_NEWUSER | CLONE_NEWNS); names(); }

#define DOOR(name) {#name, name}
static const struct { const char *name; void (*run)(void); } doors[] = {
    DOOR(connect4), DOOR(connect6), DOOR(connect_mapped), DOOR(connect_any4), DOOR(connect_any6),
    DOOR(connect_any_mapped), DOOR(connect_again), DOOR(connect_scope), DOOR(connect_without_scope),
    DOOR(connect_upper_bits), DOOR(connect_any_bound), DOOR(connect_nonblocking), DOOR(fastopen_sendto),
    DOOR(fastopen_sendmsg), DOOR(fastopen_sendmmsg), DOOR(fastopen_option), DOOR(mptcp), DOOR(mptcp_fastopen),
    DOOR(udp_sendto), DOOR(udp_sendmsg), DOOR(udp_sendmmsg), DOOR(udp_any), DOOR(udp_unspec), DOOR(udp_unspec_any),
    DOOR(udp_mapped), DOOR(udp6_to_4), DOOR(udp6_sendto), DOOR(udp6_any), DOOR(udp_connect),
    DOOR(udp_connected_elsewhere), DOOR(udp_port_zero), DOOR(udp_pktinfo), DOOR(udp6_pktinfo), DOOR(bind_to_device), DOOR(header_included), DOOR(header_included6),
    DOOR(bind_to_index), DOOR(unicast_interface), DOOR(transparent), DOOR(source_route), DOOR(routing_header), DOOR(flow_label),
    DOOR(sticky_interface), DOOR(join), DOOR(join_any_family), DOOR(join6), DOOR(listen_unbound),
    DOOR(listen_unbound6), DOOR(listen_after_failed_bind), DOOR(bind_port), DOOR(bind_unspec), DOOR(raw), DOOR(raw6),
    DOOR(packet), DOOR(packet_old), DOOR(tunnel), DOOR(key_upcall), DOOR(ping), DOOR(netlink_sockets), DOOR(netlink_pair), DOOR(vsock), DOOR(crypto),
    DOOR(unix_path), DOOR(unix_relative), DOOR(unix_abstract), DOOR(unix_datagram), DOOR(unix_datagram_abstract),
    DOOR(unix_datagram_pair), DOOR(unix_bind), DOOR(io_uring), DOOR(second_supervisor), DOOR(another_name),
    DOOR(typed_ahead), DOOR(trace), DOOR(attach), DOOR(write_memory), DOOR(open_memory), DOOR(take_descriptor),
    DOOR(signal_process), DOOR(signal_thread), DOOR(signal_queued), DOOR(signal_by_descriptor), DOOR(limit_process),
    DOOR(wait_for_end), DOOR(thread), DOOR(own_descriptors), DOOR(without_leader), DOOR(child), DOOR(daemon_child),
    DOOR(vfork_child), DOOR(spawned), DOOR(executed), DOOR(executed_by_thread), DOOR(not_dumpable), DOOR(own_user),
    DOOR(own_network), DOOR(leaves_mounts), DOOR(own_processes), DOOR(received),
    DOOR(interrupted), DOOR(restarted), DOOR(asked_again), DOOR(stopped), DOOR(time_limit), DOOR(time_limit_and_signal), DOOR(in_progress), DOOR(refused),
    DOOR(faults), DOOR(bad_fourth), DOOR(denied_third), DOOR(large), DOOR(names), DOOR(names_elsewhere),
#if defined(__x86_64__)
    DOOR(i386_connect), DOOR(i386_socket), DOOR(i386_sendto), DOOR(i386_sendmsg), DOOR(i386_sendmmsg),
    DOOR(i386_fastopen), DOOR(i386_listen), DOOR(i386_raw), DOOR(i386_device), DOOR(i386_io_uring),
    DOOR(socketcall_connect), DOOR(socketcall_socket), DOOR(socketcall_sendto), DOOR(socketcall_sendmsg),
    DOOR(socketcall_sendmmsg), DOOR(socketcall_listen), DOOR(socketcall_device), DOOR(x32_connect), DOOR(x32_sendmsg),
#endif
};

int main(int count, char **words) {
    self = words[0];
    /* A call that is never answered must not hold up the tests. */
    alarm(60);
    for (size_t at = 0; count > 1 && at < sizeof doors / sizeof *doors; at++)
        if (!strcmp(doors[at].name, words[1])) { doors[at].run(); return 0; }
    say("no such door");
    return 2;
}
