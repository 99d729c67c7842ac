/* Many devices on kept connections: each asks for its query, throws its coin, reports, and the next one comes.
 *
 *   cc -O2 -o loadgen loadgen.c && ./loadgen PORT CAMPAIGN TOKENS CONNECTIONS TOP
 *
 * TOKENS is a file with a line "token token_hash" for each device, 127.0.0.1:PORT the server, TOP the largest value of
 * the domain (devices hold uniform values). A device that is told to come back (425) does so after as many seconds as
 * it was told, and its connection waits with it. One thread, epoll, standard C library only, so that it takes little of
 * the processor the server runs on. Prints one line of JSON.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TOKEN = 22, HASH = 64, LINE = TOKEN + 1 + HASH + 1, BUFFER = 8192 };

struct line { /* one connection, and the device on it */
    int fd, reporting;
    size_t device, held;
    double asked, began, again; /* again: when to ask again; 0 while an answer is awaited */
    char in[BUFFER];
};

static const char *campaign;
static char *tokens;
static size_t devices, next_device, done, requests, waiting;
static long statuses[600];
static double *request_seconds, *device_seconds, top;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double uniform(void) { return (rand() + 0.5) / ((double)RAND_MAX + 1); }

static void die(const char *what) {
    fprintf(stderr, "loadgen: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void post(struct line *l, const char *route, const char *body, size_t length) {
    char out[1024];
    int size = snprintf(out, sizeof out,
                        "POST /v1/campaigns/%s/%s HTTP/1.1\r\nhost: load\r\ncontent-length: %zu\r\n\r\n%.*s",
                        campaign, route, length, (int)length, body);
    l->held = 0;
    l->asked = now();
    if (write(l->fd, out, size) != size) die("write");
}

static void ask(struct line *l) {
    char body[128];
    int size = snprintf(body, sizeof body, "{\"token_hash\":\"%.64s\"}", tokens + l->device * LINE + TOKEN + 1);
    post(l, "query", body, size);
}

static int start(struct line *l) { /* the next device asks for its query */
    if (next_device >= devices) return 0;
    l->device = next_device++;
    l->reporting = 0;
    l->began = now();
    ask(l);
    return 1;
}

static void report(struct line *l, const char *answer) {
    char body[512], ticket[256];
    unsigned long long threshold;
    const char *t = strstr(answer, "\"threshold\":\""), *k = strstr(answer, "\"ticket\":\"");
    if (!t || !k || sscanf(t + 13, "%llu", &threshold) != 1 || sscanf(k + 10, "%255[^\"]", ticket) != 1) {
        fprintf(stderr, "loadgen: not a ticket: %s\n", answer);
        exit(1);
    }
    int bit = uniform() * (top + 1) < (double)threshold + 1;
    if (uniform() < 0.26894142137) bit = !bit; /* the coin of epsilon = 1 */
    int size = snprintf(body, sizeof body, "{\"bit\":%d,\"ticket\":\"%s\",\"token\":\"%.22s\"}", bit, ticket,
                        tokens + l->device * LINE);
    l->reporting = 1;
    post(l, "reports", body, size);
}

static int answered(struct line *l) { /* a whole response is in l->in; 0 when the connection has nothing to do any more */
    int status = atoi(l->in + 9);
    statuses[status < 600 ? status : 0]++;
    if (status == 425 && !l->reporting) {
        char *told = strcasestr(l->in, "retry-after:");
        l->again = now() + (told ? atof(told + 12) : 1) + 0.5 * uniform();
        waiting++;
        return 1;
    }
    request_seconds[requests++] = now() - l->asked;
    if (l->reporting) {
        if (status != 201 && status != 200) fprintf(stderr, "loadgen: report answered %d\n", status);
        device_seconds[done++] = now() - l->began;
        return start(l);
    }
    if (status != 200) {
        fprintf(stderr, "loadgen: query answered %d %s\n", status, l->in);
        exit(1);
    }
    report(l, strstr(l->in, "\r\n\r\n"));
    return 1;
}

static int take(struct line *l) { /* read; 1 while the connection is in use */
    ssize_t n = read(l->fd, l->in + l->held, BUFFER - 1 - l->held);
    if (n <= 0) die("the server closed a connection");
    l->held += n;
    l->in[l->held] = 0;
    char *end = strstr(l->in, "\r\n\r\n"), *length = strcasestr(l->in, "content-length:");
    if (!end || !length || length > end) return 1;
    if (l->held < (size_t)(end + 4 - l->in) + atoi(length + 15)) return 1;
    return answered(l);
}

static int smaller(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static double at(double *sorted, size_t n, double share) { return 1000 * sorted[(size_t)(share * (n - 1))]; }

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: loadgen PORT CAMPAIGN TOKENS CONNECTIONS TOP\n");
        return 2;
    }
    campaign = argv[2];
    int width = atoi(argv[4]), busy = 0;
    top = atof(argv[5]);
    FILE *file = fopen(argv[3], "rb");
    if (!file) die(argv[3]);
    fseek(file, 0, SEEK_END);
    size_t bytes = ftell(file);
    rewind(file);
    tokens = malloc(bytes);
    if (fread(tokens, 1, bytes, file) != bytes || bytes % LINE) die("tokens");
    devices = bytes / LINE;
    request_seconds = malloc(2 * devices * sizeof *request_seconds);
    device_seconds = malloc(devices * sizeof *device_seconds);
    srand(getpid());
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct line *lines = calloc(width, sizeof *lines);
    int poll = epoll_create1(0), on = 1;
    double began = now();
    for (int i = 0; i < width; i++) {
        lines[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(lines[i].fd, (struct sockaddr *)&to, sizeof to)) die("connect");
        setsockopt(lines[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &lines[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, lines[i].fd, &e);
        busy += start(&lines[i]);
    }
    struct epoll_event events[256];
    while (busy > 0) {
        int n = epoll_wait(poll, events, 256, waiting ? 10 : 30000);
        if (n == 0 && !waiting) { errno = ETIMEDOUT; die("no answer"); }
        for (int i = 0; i < n; i++)
            if (!take(events[i].data.ptr)) busy--;
        for (int i = 0; waiting && i < width; i++)
            if (lines[i].again && lines[i].again <= now()) {
                lines[i].again = 0;
                waiting--;
                ask(&lines[i]);
            }
    }
    double seconds = now() - began;
    qsort(request_seconds, requests, sizeof *request_seconds, smaller);
    qsort(device_seconds, done, sizeof *device_seconds, smaller);
    printf("{\"devices\": %zu, \"seconds\": %.2f, \"devices_per_second\": %.0f, \"request_ms\": {\"p50\": %.1f, "
           "\"p99\": %.1f, \"max\": %.1f}, \"device_ms\": {\"p50\": %.1f, \"p99\": %.1f}, \"status\": {\"200\": %ld, "
           "\"201\": %ld, \"425\": %ld}}\n",
           done, seconds, done / seconds, at(request_seconds, requests, .5), at(request_seconds, requests, .99),
           at(request_seconds, requests, 1), at(device_seconds, done, .5), at(device_seconds, done, .99),
           statuses[200], statuses[201], statuses[425]);
    return 0;
}
