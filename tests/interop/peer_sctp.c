/* The other end of an SCTP association in UDP datagrams (RFC 6951), by usrsctp: `listen UDP-PORT` answers each message with
 * itself on its stream and in its order, `dial UDP-PORT PEER-UDP-PORT` sends messages on all streams and checks that each
 * comes back. Both SCTP ports are 5000, as WebRTC has them. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <usrsctp.h>

enum {
    SCTP_PORT = 5000,
    STREAMS = 4,
    UNORDERED = 2, /* The first stream whose messages are sent without order. */
    LARGEST = 65536,
    ROUNDS = 40,
    PPID_BINARY = 53, /* RFC 8831, 8 */
    SECONDS = 60
};

static const size_t LENGTHS[] = {1, 100, 1400, 5000, LARGEST, 3};
enum { KINDS = sizeof LENGTHS / sizeof *LENGTHS };

struct message {
    uint16_t stream;
    uint16_t flags;
    size_t length;
    unsigned char bytes[LARGEST];
};

static void fail(const char *what) {
    perror(what);
    _exit(1);
}

static void content(unsigned number, unsigned char *into, size_t length) {
    for (size_t i = 0; i < length; i++)
        into[i] = (unsigned char)(number * 197 + i * 31 + (i >> 8));
}

static struct sockaddr_in here(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void set(struct socket *of, int level, int name, const void *value, size_t length) {
    if (usrsctp_setsockopt(of, level, name, value, (socklen_t)length) < 0)
        fail("setsockopt");
}

/* A socket at this host's address for itself, with as many streams as there are lanes. */
static struct socket *open_socket(void) {
    struct socket *sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    struct sctp_initmsg streams = {.sinit_num_ostreams = STREAMS, .sinit_max_instreams = STREAMS};
    struct sctp_rtoinfo timeouts = {.srto_initial = 100, .srto_max = 1000, .srto_min = 50};
    struct sockaddr_in address = here(SCTP_PORT);
    int on = 1;
    if (sock == NULL)
        fail("socket");
    set(sock, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams);
    set(sock, IPPROTO_SCTP, SCTP_RTOINFO, &timeouts, sizeof timeouts);
    set(sock, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
    set(sock, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
    if (usrsctp_bind(sock, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    return sock;
}

/* The next message whole; 0 at the end of the association. */
static int receive(struct socket *from, struct message *into) {
    into->length = 0;
    for (;;) {
        struct sctp_rcvinfo info;
        socklen_t address_length = 0, info_length = sizeof info;
        unsigned kind = 0;
        int flags = 0;
        ssize_t got = usrsctp_recvv(from, into->bytes + into->length, LARGEST - into->length, NULL, &address_length,
                                    &info, &info_length, &kind, &flags);
        if (got < 0)
            fail("recvv");
        if (got == 0)
            return 0;
        if (kind != SCTP_RECVV_RCVINFO) {
            fputs("a message without its stream\n", stderr);
            _exit(1);
        }
        into->length += (size_t)got;
        into->stream = info.rcv_sid;
        into->flags = info.rcv_flags & SCTP_UNORDERED;
        if (flags & MSG_EOR)
            return 1;
    }
}

static void transmit(struct socket *to, const struct message *message) {
    struct sctp_sndinfo info = {.snd_sid = message->stream, .snd_flags = message->flags, .snd_ppid = htonl(PPID_BINARY)};
    ssize_t sent = usrsctp_sendv(to, message->bytes, message->length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
    if (sent != (ssize_t)message->length)
        fail("sendv");
}

static void answer(void) {
    static struct message message;
    struct socket *door = open_socket(), *sock;
    if (usrsctp_listen(door, 1) < 0)
        fail("listen");
    puts("ready");
    fflush(stdout);
    sock = usrsctp_accept(door, NULL, NULL);
    if (sock == NULL)
        fail("accept");
    while (receive(sock, &message))
        transmit(sock, &message);
}

static void ask(uint16_t udp_port) {
    static struct message sent, back;
    struct socket *sock = open_socket();
    struct sockaddr_in address = here(SCTP_PORT);
    struct sctp_udpencaps encapsulation = {.sue_port = htons(udp_port)};
    memcpy(&encapsulation.sue_address, &address, sizeof address);
    set(sock, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof encapsulation);
    if (usrsctp_connect(sock, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    for (unsigned number = 0; number < ROUNDS; number++) {
        sent.stream = number % STREAMS;
        sent.flags = sent.stream >= UNORDERED ? SCTP_UNORDERED : 0;
        sent.length = LENGTHS[number % KINDS];
        content(number, sent.bytes, sent.length);
        transmit(sock, &sent);
        if (!receive(sock, &back) || back.stream != sent.stream || back.flags != sent.flags ||
            back.length != sent.length || memcmp(back.bytes, sent.bytes, sent.length) != 0) {
            fprintf(stderr, "message %u came back otherwise\n", number);
            _exit(1);
        }
    }
    puts("all came back");
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    alarm(SECONDS);
    usrsctp_init((uint16_t)atoi(argv[2]), NULL, NULL);
    if (strcmp(argv[1], "listen") == 0)
        answer();
    else if (argc > 3)
        ask((uint16_t)atoi(argv[3]));
    /* The end of the process is that of the association: the peer's has no other. */
    _exit(0);
}
