/* Copyright The dnsconfigurer Authors
   SPDX-License-Identifier: Apache-2.0

   Prints /etc/resolv.conf as musl has read it, one value a line, or looks up the A
   records of its argument. musl has no public form of its configuration; a static
   program can link with the hidden function of libc.a that reads it. */

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* As in src/network/lookup.h. */
struct address {
	int family;
	unsigned scope;
	uint8_t addr[16];
	int sortkey;
};

struct resolvconf {
	struct address servers[3];
	unsigned nservers, attempts, ndots, timeout;
};

int __get_resolv_conf(struct resolvconf *, char *, size_t);

int main(int argc, char **argv)
{
	if (argc > 1) {
		struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *answer;
		getaddrinfo(argv[1], 0, &hints, &answer);
		return 0;
	}
	struct resolvconf conf;
	char search[256];
	if (__get_resolv_conf(&conf, search, sizeof search))
		return 1;
	for (unsigned i = 0; i < conf.nservers; i++) {
		char buf[INET6_ADDRSTRLEN];
		printf("nameserver %s %u\n", inet_ntop(conf.servers[i].family, conf.servers[i].addr, buf, sizeof buf), conf.servers[i].scope);
	}
	/* Split as in name_from_dns_search in src/network/lookup_name.c. */
	for (char *p = search; *p;) {
		while (isspace(*p))
			p++;
		if (*p)
			printf("search ");
		for (; *p && !isspace(*p); p++)
			printf("%02x", (unsigned char)*p);
		putchar('\n');
	}
	printf("ndots %u\ntimeout %u\nattempts %u\noptions 0\n", conf.ndots, conf.timeout, conf.attempts);
	return 0;
}
