/* Sends bytes over TCP, with work in user space for each chunk, as encryption is: ROLE ADDRESS PORT BYTES. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK 16384 /* bytes */

static uint64_t chunk[CHUNK / 8];

/* STEPS is the work for a chunk: a build that is 3 % slower has 3 % more of them. */
static void work(void)
{
	uint64_t state = chunk[0] + 1;
	for (int step = 0; step < STEPS; step++)
		state = state * 6364136223846793005u + 1442695040888963407u;
	chunk[0] = state;
}

int main(int count, char **words)
{
	if (count != 5)
		return 2;
	int is_server = !strcmp(words[1], "server"), on = 1;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
	if (inet_pton(AF_INET, words[2], &at.sin_addr) != 1)
		return 2;
	int end = socket(AF_INET, SOCK_STREAM, 0);
	if (is_server) {
		setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		if (bind(end, (struct sockaddr *)&at, sizeof at) || listen(end, 8))
			return perror("listen"), 1;
		end = accept(end, NULL, NULL);
	} else if (connect(end, (struct sockaddr *)&at, sizeof at)) {
		return perror("connect"), 1;
	}
	for (size_t left = strtoull(words[4], NULL, 10); left > 0;) {
		size_t length = left < CHUNK ? left : CHUNK;
		if (!is_server)
			work();
		ssize_t moved = is_server ? read(end, chunk, length) : write(end, chunk, length);
		if (moved <= 0)
			return 1;
		left -= moved;
	}
	/* The last byte is confirmed: the server answers one. */
	char answer = 1;
	return (is_server ? write(end, &answer, 1) : read(end, &answer, 1)) != 1;
}
