// A server whose send times are known: OpenAI-like streams on one core, each token carrying the time it was sent.
//
//     gcc -O2 -o truth_server truth_server.c
//     ./truth_server [-p PORT] [-t TTFT_US] [-i ITL_US] [-b]
//     gcc -O2 -DWITH_TLS -o truth_server truth_server.c -lssl -lcrypto      # with [-c CERTIFICATE_AND_KEY.pem]
//
// Prints "READY http://127.0.0.1:PORT" and ends with its standard input. Every answer has exactly max_tokens tokens
// (128 unless asked): the first TTFT_US after the request was read, the others ITL_US apart on a fixed schedule. With
// -b all streams send at the same instants, as the steps of a real engine make them do. A token is one event in one
// HTTP chunk in one send(); its content is " " and 18 digits: CLOCK_MONOTONIC nanoseconds just before that send(). The
// id of every event ends in the nanoseconds (hexadecimal) at which the request had been read.
//
// GET /stats gives what was really sent since the last GET /reset: counts, TTFT and ITL (10 us bins), lateness against
// the schedule, and the server's own CPU time.
//
// With -c all of it goes through TLS: the time in a token is then that before SSL_write, which encrypts and sends.
//
// Theory of operation. One thread, one epoll for all sockets, one heap of streams ordered by when their next token is
// due; epoll_pwait2 sleeps until the first of them, to the microsecond. A client that does not read makes its stream's
// bytes queue here; they keep the time at which they should have been sent, so the delay is the client's.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
static SSL_CTX *tls;
#endif

typedef uint64_t ns_t;

typedef struct {
  char *data;
  size_t size, capacity;
} buffer;

typedef struct {
#ifdef WITH_TLS
  SSL *ssl;
#endif
  int fd;
  buffer in, out;
  size_t flushed;  // bytes of `out` that have been sent
  int place;       // in the heap; -1 when not streaming
  int chat, wants_usage;
  long tokens, max_tokens;
  ns_t read_ns, due_ns, sent_ns;
} connection;

static ns_t ttft_ns = 100 * 1000000ull, itl_ns = 20 * 1000000ull;
static int bursts;
static int poller;

static ns_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (ns_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

// -- buffers -----------------------------------------------------------------------------------------------------------

static void reserve(buffer *b, size_t more) {
  if (b->size + more <= b->capacity) return;
  b->capacity = (b->size + more) * 2;
  b->data = realloc(b->data, b->capacity);
  if (!b->data) abort();
}

static void append(buffer *b, const char *data, size_t size) {
  reserve(b, size);
  memcpy(b->data + b->size, data, size);
  b->size += size;
}

// -- the heap of streams, earliest due first ---------------------------------------------------------------------------

static connection **heap;
static int heap_size, heap_capacity;

static void put(int place, connection *c) {
  heap[place] = c;
  c->place = place;
}

static void sift_up(int place) {
  connection *c = heap[place];
  for (; place && heap[(place - 1) / 2]->due_ns > c->due_ns; place = (place - 1) / 2) put(place, heap[(place - 1) / 2]);
  put(place, c);
}

static void sift_down(int place) {
  connection *c = heap[place];
  for (;;) {
    int child = 2 * place + 1;
    if (child >= heap_size) break;
    if (child + 1 < heap_size && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
    if (heap[child]->due_ns >= c->due_ns) break;
    put(place, heap[child]);
    place = child;
  }
  put(place, c);
}

static void heap_add(connection *c) {
  if (heap_size == heap_capacity) {
    heap_capacity = heap_capacity ? heap_capacity * 2 : 1024;
    heap = realloc(heap, heap_capacity * sizeof *heap);
    if (!heap) abort();
  }
  put(heap_size++, c);
  sift_up(c->place);
}

static void heap_remove(connection *c) {
  int place = c->place;
  if (place < 0) return;
  c->place = -1;
  connection *last = heap[--heap_size];
  if (last == c) return;
  put(place, last);
  sift_down(place);
  sift_up(last->place);
}

// -- what was really sent ----------------------------------------------------------------------------------------------

enum { BINS = 200000, BIN_NS = 10000 };

typedef struct {
  uint32_t bins[BINS];
  uint64_t count, sum_ns, max_ns;
} histogram;

static histogram ttft, itl, late;
static uint64_t requests, answered, tokens_sent, accepted;
static ns_t first_sent_ns, last_sent_ns;
static double cpu_before_s;

static double cpu_s(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static void count(histogram *h, ns_t value) {
  uint64_t bin = value / BIN_NS;
  h->bins[bin < BINS ? bin : BINS - 1]++;
  h->count++;
  h->sum_ns += value;
  if (value > h->max_ns) h->max_ns = value;
}

static double quantile_ms(const histogram *h, double q) {
  uint64_t wanted = (uint64_t)(q * h->count), seen = 0;
  for (int bin = 0; bin < BINS; bin++)
    if ((seen += h->bins[bin]) > wanted) return (bin + 0.5) * BIN_NS * 1e-6;
  return h->max_ns * 1e-6;
}

static void reset_stats(void) {
  memset(&ttft, 0, sizeof ttft);
  memset(&itl, 0, sizeof itl);
  memset(&late, 0, sizeof late);
  requests = answered = tokens_sent = accepted = first_sent_ns = last_sent_ns = 0;
  cpu_before_s = cpu_s();
}

static int print_histogram(char *out, const char *name, const histogram *h) {
  return sprintf(out, "\"%s\":{\"count\":%llu,\"mean\":%.4f,\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f}", name,
                 (unsigned long long)h->count, h->count ? h->sum_ns * 1e-6 / h->count : 0, quantile_ms(h, .5),
                 quantile_ms(h, .9), quantile_ms(h, .99), h->max_ns * 1e-6);
}

static void print_stats(char *out) {
  double used_s = cpu_s() - cpu_before_s;
  out += sprintf(out,
                 "{\"requests\":%llu,\"answered\":%llu,\"connections\":%llu,\"tokens\":%llu,\"span_s\":%.4f,"
                 "\"cpu_us_per_token\":%.3f,",
                 (unsigned long long)requests, (unsigned long long)answered, (unsigned long long)accepted,
                 (unsigned long long)tokens_sent, (last_sent_ns - first_sent_ns) * 1e-9,
                 tokens_sent ? used_s * 1e6 / tokens_sent : 0);
  out += print_histogram(out, "ttft_ms", &ttft);
  *out++ = ',';
  out += print_histogram(out, "itl_ms", &itl);
  *out++ = ',';
  out += print_histogram(out, "late_ms", &late);
  strcpy(out, "}\n");
}

// -- bytes: as send() and recv(), through TLS where that is asked for ------------------------------------------------

#ifdef WITH_TLS
static ssize_t tls_result(connection *c, int done) {
  if (done > 0) return done;
  int error = SSL_get_error(c->ssl, done);
  errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
  return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}
#endif

static ssize_t send_bytes(connection *c, const char *data, size_t size) {
#ifdef WITH_TLS
  if (c->ssl) return tls_result(c, SSL_write(c->ssl, data, size));
#endif
  return send(c->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t receive_bytes(connection *c, char *data, size_t size) {
#ifdef WITH_TLS
  if (c->ssl) return tls_result(c, SSL_read(c->ssl, data, size));
#endif
  return recv(c->fd, data, size, MSG_DONTWAIT);
}

// -- sending -----------------------------------------------------------------------------------------------------------

static void watch(connection *c, int for_room) {
  struct epoll_event e = {.events = EPOLLIN | (for_room ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

// Whether the connection still lives.
static int flush(connection *c) {
  while (c->flushed < c->out.size) {
    ssize_t sent = send_bytes(c, c->out.data + c->flushed, c->out.size - c->flushed);
    if (sent < 0) return errno == EAGAIN;
    c->flushed += sent;
  }
  c->flushed = c->out.size = 0;
  watch(c, 0);
  return 1;
}

static int transmit(connection *c, const char *data, size_t size) {
  ssize_t sent = 0;
  if (!c->out.size) {
    sent = send_bytes(c, data, size);
    if (sent < 0 && errno != EAGAIN) return 0;
    if (sent == (ssize_t)size) return 1;
    if (sent < 0) sent = 0;
    watch(c, 1);
  }
  append(&c->out, data + sent, size - sent);
  return 1;
}

static int transmit_document(connection *c, const char *json) {
  char out[8192];
  int size = snprintf(out, sizeof out,
                      "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", strlen(json), json);
  return transmit(c, out, size);
}

// -- answers: the shape of vLLM's ---------------------------------------------------------------------------------------

#define MODEL "truth"

static int put_chunk(char *out, const char *event, int size) {
  int head = sprintf(out, "%x\r\n", size);
  memcpy(out + head, event, size);
  memcpy(out + head + size, "\r\n", 2);
  return head + size + 2;
}

static int put_head(char *out, const connection *c) {
  return sprintf(out, "data: {\"id\":\"%s-%032llx\",\"object\":\"%s\",\"created\":1760000000,\"model\":\"" MODEL "\",",
                 c->chat ? "chatcmpl" : "cmpl", (unsigned long long)c->read_ns,
                 c->chat ? "chat.completion.chunk" : "text_completion");
}

static int put_text(char *out, const connection *c, const char *text, const char *finish) {
  char event[1024];
  int size = put_head(event, c);
  size += sprintf(event + size, c->chat ? "\"choices\":[{\"index\":0,\"delta\":{%s\"content\":\"%s\"},\"logprobs\":null,"
                                        : "\"choices\":[{\"index\":0,%s\"text\":\"%s\",\"logprobs\":null,",
                  *text ? "" : "\"role\":\"assistant\",", text);
  size += sprintf(event + size, finish ? "\"finish_reason\":\"%s\"}]}\n\n" : "\"finish_reason\":null}]}\n\n", finish);
  return put_chunk(out, event, size);
}

static int put_end(char *out, const connection *c) {
  char event[1024];
  int size = 0;
  if (c->wants_usage) {
    int used = put_head(event, c);
    used += sprintf(event + used,
                    "\"choices\":[],\"usage\":{\"prompt_tokens\":64,\"total_tokens\":%ld,\"completion_tokens\":%ld}}\n\n",
                    64 + c->tokens, c->tokens);
    size += put_chunk(out, event, used);
  }
  size += put_chunk(out + size, "data: [DONE]\n\n", 14);
  memcpy(out + size, "0\r\n\r\n", 5);
  return size + 5;
}

static void note_sent(connection *c, ns_t sent_ns) {
  count(&late, sent_ns > c->due_ns ? sent_ns - c->due_ns : 0);
  if (c->tokens == 1)
    count(&ttft, sent_ns - c->read_ns);
  else
    count(&itl, sent_ns - c->sent_ns);
  c->sent_ns = last_sent_ns = sent_ns;
  if (!tokens_sent++) first_sent_ns = sent_ns;
}

// Sends one token; whether the connection still lives.
static int send_token(connection *c) {
  char out[4096], text[32];
  int size = 0;
  if (!c->tokens && c->chat) size += put_text(out, c, "", NULL);
  ns_t sent_ns = now_ns();
  sprintf(text, " %018llu", (unsigned long long)sent_ns);
  c->tokens++;
  int last = c->tokens >= c->max_tokens;
  size += put_text(out + size, c, text, last ? "length" : NULL);
  if (last) size += put_end(out + size, c);
  note_sent(c, sent_ns);
  if (last) {
    answered++;
    heap_remove(c);
  } else {
    c->due_ns += itl_ns;
    sift_down(c->place);
  }
  return transmit(c, out, size);
}

// -- requests ----------------------------------------------------------------------------------------------------------

static long number_after(const char *text, const char *key, long otherwise) {
  const char *at = strstr(text, key);
  if (!at) return otherwise;
  at += strlen(key);
  while (*at == ' ' || *at == ':') at++;
  return *at >= '0' && *at <= '9' ? atol(at) : otherwise;
}

static int begin_answer(connection *c, const char *body) {
  static const char head[] =
      "HTTP/1.1 200 OK\r\ndate: Thu, 09 Oct 2025 08:53:20 GMT\r\nserver: uvicorn\r\n"
      "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
  c->read_ns = now_ns();
  c->tokens = 0;
  c->max_tokens = number_after(body, "\"max_completion_tokens\"", number_after(body, "\"max_tokens\"", 128));
  if (c->max_tokens < 1) c->max_tokens = 1;
  c->wants_usage = strstr(body, "\"include_usage\"") != NULL;
  c->due_ns = c->read_ns + ttft_ns;
  if (bursts && itl_ns) c->due_ns = (c->due_ns / itl_ns + 1) * itl_ns;
  requests++;
  heap_add(c);
  return transmit(c, head, sizeof head - 1);
}

static int serve(connection *c, const char *target, const char *body) {
  char out[4096];
  if (strstr(target, "/completions")) {
    c->chat = strstr(target, "/chat/") != NULL;
    return begin_answer(c, body);
  }
  if (strstr(target, "/models"))
    return transmit_document(c, "{\"object\":\"list\",\"data\":[{\"id\":\"" MODEL "\",\"object\":\"model\"}]}");
  if (strstr(target, "/stats")) {
    print_stats(out);
    return transmit_document(c, out);
  }
  if (strstr(target, "/reset")) reset_stats();
  return transmit_document(c, "{}");
}

// Serves the requests that have come whole, one answer at a time; whether the connection still lives.
static int serve_all(connection *c) {
  while (c->place < 0 && c->in.size) {
    reserve(&c->in, 1);
    c->in.data[c->in.size] = 0;
    char *end = strstr(c->in.data, "\r\n\r\n");
    if (!end) return 1;
    *end = 0;
    const char *field = strcasestr(c->in.data, "\r\ncontent-length:");
    size_t body_size = field ? strtoul(field + 17, NULL, 10) : 0, head_size = end - c->in.data + 4;
    if (c->in.size < head_size + body_size) {
      *end = '\r';
      return 1;
    }
    char *line_end = strchr(c->in.data, '\r');
    if (line_end) *line_end = 0;
    char next = end[4 + body_size];
    end[4 + body_size] = 0;
    int alive = serve(c, c->in.data, end + 4);
    end[4 + body_size] = next;
    c->in.size -= head_size + body_size;
    memmove(c->in.data, end + 4 + body_size, c->in.size);
    if (!alive) return 0;
  }
  return 1;
}

static int receive(connection *c) {
  for (;;) {
    reserve(&c->in, 16384);
    ssize_t got = receive_bytes(c, c->in.data + c->in.size, c->in.capacity - c->in.size - 1);
    if (got <= 0) return got < 0 && errno == EAGAIN ? serve_all(c) : 0;
    c->in.size += got;
  }
}

// -- connections -------------------------------------------------------------------------------------------------------

static void drop(connection *c) {
  heap_remove(c);
#ifdef WITH_TLS
  SSL_free(c->ssl);
#endif
  close(c->fd);
  free(c->in.data);
  free(c->out.data);
  free(c);
}

static void accept_all(int listener) {
  int fd, one = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    connection *c = calloc(1, sizeof *c);
    if (!c) abort();
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->place = -1;
#ifdef WITH_TLS
    if (tls && (!(c->ssl = SSL_new(tls)) || !SSL_set_fd(c->ssl, fd))) abort();
    if (tls) SSL_set_accept_state(c->ssl);
#endif
    accepted++;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
  }
}

static int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(fd, (void *)&address, size) || listen(fd, 4096) || getsockname(fd, (void *)&address, &size)) {
    perror("truth_server");
    exit(1);
  }
  const char *scheme = "http";
#ifdef WITH_TLS
  if (tls) scheme = "https";
#endif
  printf("READY %s://127.0.0.1:%d\n", scheme, ntohs(address.sin_port));
  fflush(stdout);
  return fd;
}

static int wait_for_events(struct epoll_event *events, int limit) {
  if (!heap_size) return epoll_pwait2(poller, events, limit, NULL, NULL);
  ns_t now = now_ns(), left = heap[0]->due_ns > now ? heap[0]->due_ns - now : 0;
  struct timespec timeout = {left / 1000000000ull, left % 1000000000ull};
  return epoll_pwait2(poller, events, limit, &timeout, NULL);
}

static void send_due_tokens(void) {
  ns_t now = now_ns();
  // Bounded, so that requests are read in between.
  for (int left = 256; left && heap_size && heap[0]->due_ns <= now; left--) {
    connection *c = heap[0];
    if (!send_token(c) || (c->place < 0 && !serve_all(c))) drop(c);
  }
}

static void run(int listener) {
  static struct epoll_event events[512];
  static char marks[2];  // what stands for the listener and for standard input
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = &marks[0]};
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
  e.data.ptr = &marks[1];
  epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &e);  // fails for a file or /dev/null: then nothing ends us
  for (;;) {
    int ready = wait_for_events(events, 512);
    for (int i = 0; i < ready; i++) {
      if (events[i].data.ptr == &marks[0]) {
        accept_all(listener);
      } else if (events[i].data.ptr == &marks[1]) {
        char ignored[256];
        if (read(STDIN_FILENO, ignored, sizeof ignored) <= 0) return;
      } else {
        connection *c = events[i].data.ptr;
        int alive = !(events[i].events & (EPOLLHUP | EPOLLERR));
        if (alive && (events[i].events & EPOLLOUT)) alive = flush(c);
        if (alive && (events[i].events & EPOLLIN)) alive = receive(c);
        if (!alive) drop(c);
      }
    }
    send_due_tokens();
  }
}

#ifdef WITH_TLS
static void use_certificate(const char *file) {
  tls = SSL_CTX_new(TLS_server_method());
  if (!tls || SSL_CTX_use_certificate_chain_file(tls, file) != 1 ||
      SSL_CTX_use_PrivateKey_file(tls, file, SSL_FILETYPE_PEM) != 1) {
    fprintf(stderr, "truth_server: %s holds no certificate and key\n", file);
    exit(1);
  }
  SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
#endif

int main(int argc, char **argv) {
  int option, port = 0;
  while ((option = getopt(argc, argv, "p:t:i:bc:")) != -1) {
    if (option == 'p') port = atoi(optarg);
    else if (option == 't') ttft_ns = atol(optarg) * 1000ull;
    else if (option == 'i') itl_ns = atol(optarg) * 1000ull;
    else if (option == 'b') bursts = 1;
#ifdef WITH_TLS
    else if (option == 'c') use_certificate(optarg);
#endif
    else return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  reset_stats();
  poller = epoll_create1(0);
  run(listen_on(port));
  return 0;
}
