/* Copyright The dnsconfigurer Authors
   SPDX-License-Identifier: Apache-2.0

   Prints /etc/resolv.conf as glibc has read it, one value a line, or looks up the
   A records of its argument. Built with -DWHOLE and -static it also prints the
   search domains after the sixth, which do not fit into the public struct: a static
   program can link with the hidden functions of libc.a. */

#include <arpa/inet.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

static void text(const char *key, const char *s)
{
	printf("%s ", key);
	for (; *s; s++)
		printf("%02x", (unsigned char)*s);
	putchar('\n');
}

#ifdef WHOLE
/* The head of struct resolv_conf, resolv/resolv_conf.h. */
struct resolv_conf {
	size_t references;
	const struct sockaddr **servers;
	size_t nservers;
	const char *const *search;
	size_t nsearch;
};

struct resolv_conf *__resolv_conf_get(struct __res_state *);

static void search(struct __res_state *state)
{
	struct resolv_conf *conf = __resolv_conf_get(state);
	for (size_t i = 0; conf && i < conf->nsearch; i++)
		text("search", conf->search[i]);
}
#else
static void search(struct __res_state *state)
{
	for (int i = 0; i < MAXDNSRCH && state->dnsrch[i]; i++)
		text("search", state->dnsrch[i]);
}
#endif

/* Some sortlist lines hang glibc; all others need less than 200 ms of processor time.
   An abort leaves no core. */
static void bound(void)
{
	setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value = {.tv_usec = 200000}}, 0);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

int main(int argc, char **argv)
{
	bound();
	struct __res_state state = {0};
	if (res_ninit(&state))
		return 1;
	if (argc > 1) {
		unsigned char answer[512];
		res_nsearch(&state, argv[1], ns_c_in, ns_t_a, answer, sizeof answer);
		return 0;
	}
	for (int i = 0; i < state.nscount; i++) {
		char buf[INET6_ADDRSTRLEN];
		struct sockaddr_in6 *six = state._u._ext.nsaddrs[i];
		if (state.nsaddr_list[i].sin_family == AF_INET)
			printf("nameserver %s 0\n", inet_ntop(AF_INET, &state.nsaddr_list[i].sin_addr, buf, sizeof buf));
		else
			printf("nameserver %s %u\n", inet_ntop(AF_INET6, &six->sin6_addr, buf, sizeof buf), six->sin6_scope_id);
	}
	search(&state);
	printf("ndots %u\ntimeout %d\nattempts %d\noptions %lu\n", state.ndots, state.retrans, state.retry, state.options);
	return 0;
}
