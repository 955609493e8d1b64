/* A server that writes events at exact times, each in a TCP write of its own, and logs when.
 *
 *   paced_server EVENTS PER_SECOND FIRST_MS SPREAD_MS SEED LOG
 *
 * Every POST is answered by a stream of EVENTS chat (or text) completion chunks of 300 bytes: the
 * first FIRST_MS + U(0, SPREAD_MS) after the request was read, the others 1/PER_SECOND apart, then
 * usage and [DONE] in one write. Each chunk carries its send time ("sent_ns", CLOCK_MONOTONIC, taken
 * just before its write). Every GET is answered by a list of one model.
 *
 * It prints its port, and on SIGTERM one JSON document of counters. LOG has one record a finished
 * stream, native byte order: uint64 max_tokens of the request (its tag), uint64 number of events,
 * uint64 time at which the request was read, uint64 send time of each event. Linux 5.11 or later. */
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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_BYTES = 300, MAX_OPEN = 65536, READY = 256, LATE_BUCKETS = 100000 };

typedef struct {
    int fd, slot;            /* slot: place in the heap of due times, -1 where none */
    uint64_t due_ns;         /* of the next event */
    uint64_t tag, read_ns;
    uint64_t *sent_ns;
    uint32_t num_sent;
    int is_chat;
    char *in, *out;          /* what was read of a request; what the socket did not take */
    size_t in_len, in_cap, out_len;
} Stream;

static uint64_t num_events, gap_ns, first_ns, spread_ns, random_state;
static uint64_t requests, finished, broken, events, blocked, connections, open_now, peak_open;
static uint64_t late_us[LATE_BUCKETS + 1], late_max_ns; /* histogram of send less due time, 1 us wide */
static Stream *streams[MAX_OPEN], *heap[MAX_OPEN]; /* by descriptor; by due time */
static int heap_size, poller;
static FILE *log_file;
static volatile sig_atomic_t is_stopping;

static const char HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n";
static const char MODELS[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 80\r\n\r\n"
    "{\"object\":\"list\",\"data\":[{\"id\":\"paced\",\"object\":\"model\",\"owned_by\":\"teardown\"}]}";

static void stop(int number) { (void)number; is_stopping = 1; }

static void die(const char *what) {
    fprintf(stderr, "paced_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t draw(uint64_t below) { /* xorshift64* */
    random_state ^= random_state >> 12, random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return below ? (random_state * 2685821657736338717u >> 16) % below : 0;
}

/* ---- the streams by due time: a binary heap ---- */

static void put(int place, Stream *stream) { heap[place] = stream, stream->slot = place; }

static void sift(int place, Stream *stream) {
    while (place > 0 && heap[(place - 1) / 2]->due_ns > stream->due_ns) {
        put(place, heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        int child = 2 * place + 1;
        if (child >= heap_size) break;
        if (child + 1 < heap_size && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
        if (heap[child]->due_ns >= stream->due_ns) break;
        put(place, heap[child]);
        place = child;
    }
    put(place, stream);
}

static void leave(Stream *stream) {
    int place = stream->slot;
    if (place < 0) return;
    stream->slot = -1;
    Stream *last = heap[--heap_size];
    if (last != stream) sift(place, last);
}

/* ---- writing ---- */

static void watch(Stream *stream, uint32_t what) {
    struct epoll_event event = {.events = what, .data.fd = stream->fd};
    epoll_ctl(poller, EPOLL_CTL_MOD, stream->fd, &event);
}

static int send_all(Stream *stream, const char *data, size_t length) { /* -1: connection lost */
    if (stream->out_len == 0) {
        ssize_t n = send(stream->fd, data, length, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) return -1;
        if (n > 0) data += n, length -= (size_t)n;
        if (length == 0) return 0;
        blocked++;
        watch(stream, EPOLLIN | EPOLLOUT);
    }
    stream->out = realloc(stream->out, stream->out_len + length);
    memcpy(stream->out + stream->out_len, data, length);
    stream->out_len += length;
    return 0;
}

static int flush(Stream *stream) {
    ssize_t n = send(stream->fd, stream->out, stream->out_len, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    stream->out_len -= (size_t)n;
    memmove(stream->out, stream->out + n, stream->out_len);
    if (stream->out_len == 0) watch(stream, EPOLLIN);
    return 0;
}

static int send_event(Stream *stream) {
    char json[EVENT_BYTES + 64], frame[EVENT_BYTES + 128];
    int is_last = stream->num_sent + 1 == num_events;
    int length = snprintf(
        json, sizeof json,
        "data: {\"id\":\"chatcmpl-%08llu\",\"object\":\"%s\",\"created\":1700000000,"
        "\"model\":\"paced\",\"sent_ns\":\"00000000000000000000\",\"choices\":[{\"index\":0,%s,"
        "\"logprobs\":null,\"finish_reason\":%s}],\"usage\":null,\"pad\":\"",
        (unsigned long long)requests % 100000000,
        stream->is_chat ? "chat.completion.chunk" : "text_completion",
        stream->is_chat ? "\"delta\":{\"content\":\" word\"}" : "\"text\":\" word\"",
        is_last ? "\"length\"" : "null");
    while (length < EVENT_BYTES - 4) json[length++] = '.';
    memcpy(json + length, "\"}\n\n", 4), length += 4;
    int framed = snprintf(frame, sizeof frame, "%x\r\n%.*s\r\n", length, length, json);
    char *digit = strstr(frame, "\"sent_ns\":\"") + 11 + 20;
    uint64_t at_ns = now_ns(), late_ns = at_ns - stream->due_ns;
    for (uint64_t rest = at_ns; rest; rest /= 10) *--digit = (char)('0' + rest % 10);
    int is_lost = send_all(stream, frame, (size_t)framed);
    if (late_ns > late_max_ns) late_max_ns = late_ns;
    late_us[late_ns / 1000 < LATE_BUCKETS ? late_ns / 1000 : LATE_BUCKETS]++;
    stream->sent_ns[stream->num_sent++] = at_ns;
    events++;
    return is_lost;
}

static int send_end(Stream *stream) {
    char text[256], frame[320];
    uint64_t record[3] = {stream->tag, stream->num_sent, stream->read_ns};
    int length = snprintf(
        text, sizeof text,
        "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
        "\"model\":\"paced\",\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%llu,"
        "\"total_tokens\":%llu}}\n\ndata: [DONE]\n\n",
        (unsigned long long)num_events, (unsigned long long)num_events + 8);
    int framed = snprintf(frame, sizeof frame, "%x\r\n%s\r\n0\r\n\r\n", length, text);
    fwrite(record, sizeof record, 1, log_file);
    fwrite(stream->sent_ns, sizeof *stream->sent_ns, stream->num_sent, log_file);
    finished++;
    return send_all(stream, frame, (size_t)framed);
}

/* ---- reading ---- */

static uint64_t number_after(const char *body, const char *key) {
    const char *found = strstr(body, key);
    if (!found) return 0;
    found += strlen(key);
    while (*found == ' ' || *found == ':') found++;
    return strtoull(found, NULL, 10);
}

static int answer(Stream *stream) { /* every whole request in the buffer; -1: connection lost */
    for (;;) {
        stream->in[stream->in_len] = 0;
        char *end = strstr(stream->in, "\r\n\r\n");
        if (!end) return 0;
        char *length_at = strcasestr(stream->in, "content-length:");
        size_t body = length_at && length_at < end ? strtoull(length_at + 15, NULL, 10) : 0;
        size_t whole = (size_t)(end + 4 - stream->in) + body;
        if (stream->in_len < whole) return 0;
        if (strncmp(stream->in, "POST ", 5) != 0) {
            if (send_all(stream, MODELS, sizeof MODELS - 1) < 0) return -1;
        } else {
            if (stream->slot >= 0) return -1; /* pipelining: no client does that */
            char *line_end = strstr(stream->in, "\r\n");
            char *chat = strstr(stream->in, "/chat/");
            requests++;
            stream->is_chat = chat && chat < line_end;
            stream->tag = number_after(end + 4, "\"max_tokens\"");
            stream->read_ns = now_ns();
            stream->num_sent = 0;
            stream->due_ns = stream->read_ns + first_ns + draw(spread_ns);
            if (send_all(stream, HEAD, sizeof HEAD - 1) < 0) return -1;
            sift(heap_size++, stream);
        }
        stream->in_len -= whole;
        memmove(stream->in, stream->in + whole, stream->in_len);
    }
}

static int take(Stream *stream) { /* -1: connection lost */
    if (stream->in_cap - stream->in_len < 4096) {
        stream->in_cap = stream->in_cap * 2 + 8192;
        stream->in = realloc(stream->in, stream->in_cap);
    }
    ssize_t n = recv(stream->fd, stream->in + stream->in_len, stream->in_cap - stream->in_len - 1, 0);
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    if (n == 0) return -1;
    stream->in_len += (size_t)n;
    return answer(stream);
}

static void drop(Stream *stream) {
    if (stream->slot >= 0) broken++;
    leave(stream);
    close(stream->fd);
    streams[stream->fd] = NULL;
    free(stream->in), free(stream->out), free(stream->sent_ns), free(stream);
    open_now--;
}

static void accept_all(int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
        if (fd < 0) return;
        if (fd >= MAX_OPEN) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        Stream *stream = calloc(1, sizeof *stream);
        stream->fd = fd, stream->slot = -1;
        stream->sent_ns = calloc(num_events, sizeof *stream->sent_ns);
        streams[fd] = stream;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = stream->fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
        connections++;
        if (++open_now > peak_open) peak_open = open_now;
    }
}

/* ---- the loop ---- */

static void send_due(void) {
    while (heap_size && heap[0]->due_ns <= now_ns()) {
        Stream *stream = heap[0];
        int is_lost = send_event(stream) < 0;
        if (!is_lost && stream->num_sent == num_events) {
            leave(stream);
            is_lost = send_end(stream) < 0;
        } else if (!is_lost) {
            stream->due_ns += gap_ns;
            sift(0, stream);
        }
        if (is_lost) drop(stream);
    }
}

static double late_quantile_us(double fraction) {
    uint64_t seen = 0;
    for (int i = 0; i <= LATE_BUCKETS; i++)
        if ((seen += late_us[i]) >= (uint64_t)(fraction * (double)events)) return i + 0.5;
    return LATE_BUCKETS;
}

static void report(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"requests\":%llu,\"finished\":%llu,\"broken\":%llu,\"events\":%llu,\"blocked\":%llu,"
           "\"connections\":%llu,\"peak_connections\":%llu,\"late_p50_us\":%.1f,"
           "\"late_p99_us\":%.1f,\"late_max_us\":%.1f,\"cpu_s\":%.3f}\n",
           (unsigned long long)requests, (unsigned long long)finished, (unsigned long long)broken,
           (unsigned long long)events, (unsigned long long)blocked,
           (unsigned long long)connections, (unsigned long long)peak_open, late_quantile_us(0.5),
           late_quantile_us(0.99), (double)late_max_ns / 1e3,
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
}

static int listen_on_loopback(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0) die("bind");
    if (listen(listener, 4096) < 0) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **words) {
    if (count != 7) {
        fprintf(stderr, "usage: paced_server EVENTS PER_SECOND FIRST_MS SPREAD_MS SEED LOG\n");
        return 2;
    }
    num_events = strtoull(words[1], NULL, 10);
    gap_ns = (uint64_t)(1e9 / atof(words[2]));
    first_ns = (uint64_t)(1e6 * atof(words[3])), spread_ns = (uint64_t)(1e6 * atof(words[4]));
    random_state = strtoull(words[5], NULL, 10) * 2 + 1;
    log_file = fopen(words[6], "wb");
    if (!log_file) die(words[6]);
    struct rlimit files = {MAX_OPEN, MAX_OPEN};
    setrlimit(RLIMIT_NOFILE, &files);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGTERM, stop);
    poller = epoll_create1(0);
    int listener = listen_on_loopback();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[READY];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    while (!is_stopping) {
        uint64_t now = now_ns(), wait = 100000000;
        if (heap_size) wait = heap[0]->due_ns > now ? heap[0]->due_ns - now : 0;
        struct timespec timeout = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
        long n = syscall(SYS_epoll_pwait2, poller, ready, READY, &timeout, NULL, 0);
        if (n < 0 && errno != EINTR) die("epoll_pwait2");
        send_due();
        for (long i = 0; i < n; i++) {
            Stream *stream = streams[ready[i].data.fd]; /* NULL: lost while sending */
            if (ready[i].data.fd == listener) accept_all(listener);
            else if (!stream) continue;
            else if ((ready[i].events & EPOLLOUT && flush(stream) < 0) || take(stream) < 0) drop(stream);
        }
    }
    fclose(log_file);
    report();
    return 0;
}
