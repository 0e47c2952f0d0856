/* Copyright The dnsconfigurer Authors
   SPDX-License-Identifier: Apache-2.0

   Looks a name up as programs do. The first argument says how: "0", "4" and "6"
   are the families of getaddrinfo, any other number is a type for res_search. It
   prints the addresses, a line each, or the number of answers; or the error. */

#include <arpa/inet.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#ifndef EAI_NODATA /* musl 1.2.3 has none */
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
	case 0: return "NETDB_SUCCESS"; /* musl leaves it as it was */
	case HOST_NOT_FOUND: return "HOST_NOT_FOUND";
	case TRY_AGAIN: return "TRY_AGAIN";
	case NO_RECOVERY: return "NO_RECOVERY";
	case NO_DATA: return "NO_DATA";
	default: return hstrerror(e);
	}
}

static int lookup(const char *name, int family)
{
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *list;
	int e = getaddrinfo(name, 0, &hints, &list);
	if (e) {
		printf("error %s: %s\n", lookup_error(e), gai_strerror(e));
		return 0;
	}
	for (; list; list = list->ai_next) {
		char buf[128];
		if (getnameinfo(list->ai_addr, list->ai_addrlen, buf, sizeof buf, 0, 0, NI_NUMERICHOST))
			return 1;
		puts(buf);
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
	if (argc != 3)
		return 2;
	switch (atoi(argv[1])) {
	case 0: return lookup(argv[2], AF_UNSPEC);
	case 4: return lookup(argv[2], AF_INET);
	case 6: return lookup(argv[2], AF_INET6);
	default: return search(argv[2], atoi(argv[1]));
	}
}
