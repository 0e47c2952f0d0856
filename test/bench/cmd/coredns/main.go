// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS as a cluster runs it: its own main function with the plugins
// of kubeadm's Corefile, acl, autopath, bind, chaos, dns64, file, hosts, k8s_external, log, rewrite and template. Without
// the other plugins, which need the libraries of three clouds, a cold build is several times faster; the code that runs
// is the same.
package main

import (
	"reflect"

	"github.com/coredns/coredns/coremain"
	"github.com/coredns/coredns/plugin/acl"
	"github.com/coredns/coredns/plugin/autopath"
	_ "github.com/coredns/coredns/plugin/bind" // exports nothing, as errors, health and reload
	"github.com/coredns/coredns/plugin/cache"
	"github.com/coredns/coredns/plugin/chaos"
	"github.com/coredns/coredns/plugin/dns64"
	_ "github.com/coredns/coredns/plugin/errors"
	"github.com/coredns/coredns/plugin/file"
	"github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	"github.com/coredns/coredns/plugin/hosts"
	external "github.com/coredns/coredns/plugin/k8s_external"
	"github.com/coredns/coredns/plugin/kubernetes"
	"github.com/coredns/coredns/plugin/loadbalance"
	"github.com/coredns/coredns/plugin/log"
	"github.com/coredns/coredns/plugin/loop"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	"github.com/coredns/coredns/plugin/rewrite"
	"github.com/coredns/coredns/plugin/template"
)

// A plugin registers itself when it is linked, so one reference to each is enough.
var _ = []reflect.Type{
	reflect.TypeFor[acl.ACL](),
	reflect.TypeFor[autopath.AutoPath](),
	reflect.TypeFor[cache.Cache](),
	reflect.TypeFor[chaos.Chaos](),
	reflect.TypeFor[dns64.DNS64](),
	reflect.TypeFor[external.External](),
	reflect.TypeFor[file.File](),
	reflect.TypeFor[forward.Forward](),
	reflect.TypeFor[hosts.Hosts](),
	reflect.TypeFor[kubernetes.Kubernetes](),
	reflect.TypeFor[loadbalance.LoadBalance](),
	reflect.TypeFor[log.Logger](),
	reflect.TypeFor[loop.Loop](),
	reflect.TypeFor[metrics.Metrics](),
	reflect.TypeFor[ready.Readiness](),
	reflect.TypeFor[rewrite.Rewrite](),
	reflect.TypeFor[template.Handler](),
}

func main() { coremain.Run() }
