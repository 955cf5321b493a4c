// The physical limit of a client on this machine: epoll, one recvmsg a token, kernel stamps, hardly any parsing.
//
//     gcc -O2 -o truth_client truth_client.c
//     ./truth_client -p PORT -n STREAMS [-t TOKENS] [-r RAMP_MS] [-w WINDOW_MS]
//
// Asks truth_server.c for answers of TOKENS tokens on STREAMS connections that start over RAMP_MS, and prints as JSON
// what it measured in the WINDOW_MS that begin a second later: tokens/s, CPU time per token, and how far the stamps are
// from the send times in the tokens.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/net_tstamp.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char mark[] = "\"content\":\" ";
static int64_t *errors_ns;
static size_t errors, capacity;
static int64_t wall_offset_ns;

static int64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static double cpu_s(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static void note(int64_t error_ns) {
  if (errors == capacity) {
    capacity = capacity ? capacity * 2 : 1 << 20;
    errors_ns = realloc(errors_ns, capacity * sizeof *errors_ns);
    if (!errors_ns) abort();
  }
  errors_ns[errors++] = error_ns;
}

static double error_us(double share) { return errors ? errors_ns[(size_t)(share * (errors - 1))] / 1e3 : 0; }

static int connect_to(int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(fd, (void *)&to, sizeof to)) {
    perror("truth_client");
    exit(1);
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps);
  return fd;
}

// One read: its bytes end with 0; its arrival in monotonic ns goes to *at_ns.
static ssize_t read_stamped(int fd, char *data, size_t size, int64_t *at_ns) {
  char control[256];
  struct iovec part = {data, size - 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
  if (got <= 0) return got;
  data[got] = 0;
  *at_ns = now_ns(CLOCK_MONOTONIC);
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
      struct timespec *t = (void *)CMSG_DATA(c);
      if (t->tv_sec) *at_ns = t->tv_sec * 1000000000ll + t->tv_nsec - wall_offset_ns;
    }
  return got;
}

int main(int argc, char **argv) {
  int option, port = 0, streams = 200, tokens = 128, ramp_ms = 1000, window_ms = 3000, started = 0, measuring = 0;
  while ((option = getopt(argc, argv, "p:n:t:r:w:")) != -1) {
    if (option == 'p') port = atoi(optarg);
    else if (option == 'n') streams = atoi(optarg);
    else if (option == 't') tokens = atoi(optarg);
    else if (option == 'r') ramp_ms = atoi(optarg);
    else if (option == 'w') window_ms = atoi(optarg);
    else return 2;
  }
  char body[256], request[512];
  static char data[65536];
  int body_size = sprintf(body, "{\"max_tokens\":%d,\"stream\":true,\"stream_options\":{\"include_usage\":true}}", tokens);
  int request_size =
      sprintf(request, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s", body_size, body);
  int poller = epoll_create1(0);
  int64_t begin_ns = now_ns(CLOCK_MONOTONIC), from_ns = 0;
  wall_offset_ns = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
  double from_cpu_s = 0;
  for (;;) {
    int64_t at_ms = (now_ns(CLOCK_MONOTONIC) - begin_ns) / 1000000;
    if (!measuring && at_ms >= ramp_ms + 1000) {
      measuring = 1;
      errors = 0;
      from_ns = now_ns(CLOCK_MONOTONIC);
      from_cpu_s = cpu_s();
    }
    if (at_ms >= ramp_ms + 1000 + window_ms) break;
    for (; started < streams && at_ms * streams >= (int64_t)ramp_ms * started; started++) {
      int fd = connect_to(port);
      struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
      epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
      if (send(fd, request, request_size, 0) < 0) return 1;
    }
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, 1);
    for (int i = 0; i < ready; i++) {
      int64_t at_ns;
      ssize_t got = read_stamped(events[i].data.fd, data, sizeof data, &at_ns);
      if (got <= 0) continue;
      for (char *p = data; (p = memmem(p, data + got - p, mark, sizeof mark - 1));) {
        p += sizeof mark - 1;
        note(at_ns - (int64_t)strtoull(p, &p, 10));
      }
      if (got >= 5 && !memcmp(data + got - 5, "0\r\n\r\n", 5) && send(events[i].data.fd, request, request_size, 0) < 0) return 1;
    }
  }
  double window_s = (now_ns(CLOCK_MONOTONIC) - from_ns) * 1e-9, used_s = cpu_s() - from_cpu_s;
  qsort(errors_ns, errors, sizeof *errors_ns, by_size);
  printf("{\"tokens_per_s\":%.0f,\"cpu_us_per_token\":%.3f,\"core_share\":%.3f,"
         "\"stamp_error_us\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}}\n",
         errors / window_s, errors ? used_s * 1e6 / errors : 0, used_s / window_s, error_us(.5), error_us(.99), error_us(1));
  return 0;
}
