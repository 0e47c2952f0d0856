// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

// fate is what becomes of a plugin or a property. With an empty text the cluster DNS server always does the same.
type fate struct {
	text    string
	changes bool
}

const (
	fixedTimes  = "times and limits are fixed: docs/dns.md#forwarding-and-cache"
	noLogOption = "the log of this server has no such option"
)

// fates are those of plugins, and of properties as "PLUGIN PROPERTY". What is missing has no counterpart. A plugin that
// fewer than one in twenty Corefiles of clusters has is refused.
var fates = map[string]fate{
	"errors": {}, "loop": {}, "reload": {}, "loadbalance": {}, "local": {}, "any": {}, "minimal": {}, "cancel": {}, "metadata": {},
	"errors consolidate":           {text: noLogOption},
	"errors stacktrace":            {text: noLogOption},
	"loadbalance weighted":         {text: "addresses are rotated", changes: true},
	"cache serve_stale_policy":     {text: "docs/dns.md#last-known-good"},
	"loadbalance prefer":           {text: "addresses are rotated", changes: true},
	"debug":                        {text: noLogOption},
	"pprof":                        {text: "has no counterpart"},
	"trace":                        {text: "has no counterpart"},
	"dnstap":                       {text: "has no counterpart: queryLog writes text or JSON"},
	"nsid":                         {text: "has no counterpart"},
	"timeouts":                     {text: fixedTimes},
	"multisocket":                  {text: "each address has one socket with several readers"},
	"bufsize":                      {text: "replies over UDP have at most 1232 octets"},
	"root":                         {text: "write full paths"},
	"autopath":                     {text: "clients try their search list; docs/dns.md#autopath describes the search on the server"},
	"acl":                          {text: "all clients are answered: use a NetworkPolicy", changes: true},
	"view":                         {text: "all clients get the same answers", changes: true},
	"whoami":                       {text: "has no counterpart", changes: true},
	"template ederror":             {text: "replies with SERVFAIL and REFUSED have the extended error 15"},
	"template upstream":            {},
	"file reload":                  {},
	"file reload_by_mtime":         {},
	"file upstream":                {},
	"file fallthrough":             {text: "names that the file does not have get NXDOMAIN", changes: true},
	"dns64":                        {text: "has no counterpart: use upstream servers with DNS64", changes: true},
	"k8s_external":                 {text: "has no counterpart: use external-dns with a public zone", changes: true},
	"tls":                          {text: "only DNS over UDP and TCP is served", changes: true},
	"cache":                        {text: "TTLs of other servers are kept, and not capped or raised; " + fixedTimes},
	"cache success":                {text: "maxMemory limits the cache"},
	"cache denial":                 {text: "maxMemory limits the cache"},
	"cache prefetch":               {},
	"cache serve_stale":            {text: "a stale answer is served while servers fail or take longer than 1.8 s, for an hour"},
	"cache servfail":               {text: "failures are cached for 5 s"},
	"cache disable":                {},
	"cache keepttl":                {text: "TTLs count down"},
	"forward prefer_udp":           {},
	"forward max_fails":            {text: fixedTimes},
	"forward expire":               {text: fixedTimes},
	"forward health_check":         {text: fixedTimes},
	"forward max_age":              {text: fixedTimes},
	"forward read_timeout":         {text: fixedTimes},
	"forward source_address":       {text: "the kernel selects the source address"},
	"forward except":               {text: "has no counterpart: these names are forwarded, too", changes: true},
	"forward max_idle_conns":       {text: fixedTimes},
	"forward max_connect_attempts": {text: fixedTimes},
	"forward failfast_all_unhealthy_upstreams": {text: fixedTimes},
	"kubernetes startup_timeout":               {text: "names of the cluster get SERVFAIL until they are loaded"},
	"kubernetes apiserver_qps":                 {text: "objects are watched, requests are few"},
	"kubernetes apiserver_burst":               {text: "objects are watched, requests are few"},
	"kubernetes apiserver_max_inflight":        {text: "objects are watched, requests are few"},
	"kubernetes endpoint_pod_names":            {text: "endpoints without a hostname are named by their address", changes: true},
	"kubernetes namespaces":                    {text: "the Services of all namespaces are served", changes: true},
	"kubernetes namespace_labels":              {text: "the Services of all namespaces are served", changes: true},
	"kubernetes labels":                        {text: "all Services are served", changes: true},
	"kubernetes noendpoints":                   {text: "names of endpoints are served", changes: true},
	"kubernetes ignore":                        {text: "a Service without endpoints has an address", changes: true},
	"kubernetes multicluster":                  {text: "names of ServiceImports are not served: use a stub domain", changes: true},
	"kubernetes endpoint":                      {text: "write a kubeconfig with this API server, and set kubeconfig", changes: true},
	"kubernetes tls":                           {text: "write a kubeconfig with these files, and set kubeconfig", changes: true},
}
