/* Copyright The dnsconfigurer Authors
   SPDX-License-Identifier: Apache-2.0

   Looks up a name. The first argument is the kind of lookup: "0", "4" and "6" are
   the families of getaddrinfo, any other number is a type for res_search. It prints
   the addresses, one a line, or the number of answers, or the error.

   The arguments "each PAUSE NAME..." look up several names with a pause in
   milliseconds before each. Each gets a line with the name, the duration in
   microseconds, and the addresses or the error. "during PAUSE NAME..." repeats this
   until the standard input ends. */

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#ifndef EAI_NODATA /* not in musl 1.2.3 */
#define EAI_NODATA -5
#define EAI_ADDRFAMILY -9
#endif

static const char *lookup_error(int e)
{
	switch (e) {
	case EAI_NONAME: return "EAI_NONAME";
	case EAI_NODATA: return "EAI_NODATA";
	case EAI_AGAIN: return "EAI_AGAIN";
	case EAI_FAIL: return "EAI_FAIL";
	case EAI_ADDRFAMILY: return "EAI_ADDRFAMILY";
	default: return gai_strerror(e);
	}
}

static const char *search_error(int e)
{
	switch (e) {
	case 0: return "NETDB_SUCCESS"; /* musl does not set it */
	case HOST_NOT_FOUND: return "HOST_NOT_FOUND";
	case TRY_AGAIN: return "TRY_AGAIN";
	case NO_RECOVERY: return "NO_RECOVERY";
	case NO_DATA: return "NO_DATA";
	default: return hstrerror(e);
	}
}

static int print(int e, const struct addrinfo *list, const char *end)
{
	if (e) {
		printf("error %s: %s%s", lookup_error(e), gai_strerror(e), end);
		return 0;
	}
	for (; list; list = list->ai_next) {
		char buf[128];
		if (getnameinfo(list->ai_addr, list->ai_addrlen, buf, sizeof buf, 0, 0, NI_NUMERICHOST))
			return 1;
		printf("%s%s", buf, end);
	}
	return 0;
}

static int lookup(const char *name, int family)
{
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *list;
	int e = getaddrinfo(name, 0, &hints, &list);
	return print(e, list, "\n");
}

static long micros(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int each(int pause, char **names, int repeat)
{
	struct pollfd input = {.fd = repeat ? 0 : -1}; /* poll waits, and returns 1 at the end of the input */
	static char line[4096];
	setvbuf(stdout, line, _IOLBF, sizeof line); /* whole lines: several programs write to the file */
	for (char **name = names; *name && !poll(&input, 1, pause);) {
		struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
		long begin = micros();
		int e = getaddrinfo(*name, 0, &hints, &list);
		printf("%s %ld ", *name, micros() - begin);
		if (print(e, list, " "))
			return 1;
		putchar('\n');
		if (!e)
			freeaddrinfo(list);
		if (!*++name && repeat)
			name = names;
	}
	return 0;
}

static int search(const char *name, int type)
{
	static unsigned char answer[65536];
	if (res_search(name, 1, type, answer, sizeof answer) < 0)
		printf("error %s: %s\n", search_error(h_errno), hstrerror(h_errno));
	else
		printf("%d\n", answer[6] << 8 | answer[7]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "each"))
		return each(atoi(argv[2]), argv + 3, 0);
	if (argc > 3 && !strcmp(argv[1], "during"))
		return each(atoi(argv[2]), argv + 3, 1);
	if (argc != 3)
		return 2;
	switch (atoi(argv[1])) {
	case 0: return lookup(argv[2], AF_UNSPEC);
	case 4: return lookup(argv[2], AF_INET);
	case 6: return lookup(argv[2], AF_INET6);
	default: return search(argv[2], atoi(argv[1]));
	}
}
