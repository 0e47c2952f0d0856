// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// workload is an object of a cluster, as its author writes it.
type workload struct {
	finds string // the code of the finding about its mistake; "": it is correct
	kind  string
	name  string // NAMESPACE/NAME
	spec  string // fields of the spec of its pods, of a Service its own
	meta  string // fields of its metadata
}

// workloads are those of a cluster, and the Services that matter. The first five mistakes are in the same list; the others are
// tried one by one, too.
var workloads = []workload{
	{"fqdn-too-long", "Deployment", "payments-production/storefront-checkout", `{setHostnameAsFQDN: true, subdomain: storefront}`, ""},
	{"host-network-cluster-first", "DaemonSet", "logging/fluent-bit", `{hostNetwork: true}`, ""},
	{"option-value", "CronJob", "shop/invoices", `{dnsConfig: {options: [{name: "ndots:2"}]}}`, ""},
	{"service-not-headless", "StatefulSet", "data/redis", "", ""},
	{"nameserver-limit", "Deployment", "legacy/billing", `{dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2, 192.0.2.3]}}`, ""},

	{"external-name-address", "Service", "shop/printer", `{type: ExternalName, externalName: 192.0.2.7}`, ""},
	{"annotation-not-in-template", "Deployment", "shop/autopath", "",
		`{annotations: {dnsconfigurer.dev/policy: ClusterFirstWithAutopath}}`},
	{"service-missing", "StatefulSet", "data/mongo", "", ""},
	{"loopback-nameserver", "Pod", "shop/resolver", `{dnsPolicy: None, dnsConfig: {nameservers: [127.0.0.1]}}`, ""},
	{"selector-matches-nothing", "Service", "data/ghost", `{clusterIP: None, selector: {app: ghots}}`, ""},

	{"", "DaemonSet", "kube-flannel/kube-flannel-ds", `{hostNetwork: true, priorityClassName: system-node-critical}`, ""},
	{"", "DaemonSet", "csi/csi-node", `{hostNetwork: true, priorityClassName: system-node-critical}`, ""},
	{"", "DaemonSet", "ingress/edge", `{hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet}`, ""},
	{"", "DaemonSet", "monitoring/promtail", "", ""},
	{"", "Deployment", "argocd/argocd-repo-server", "", ""},
	{"", "Deployment", "argocd/argocd-server", "", ""},
	{"", "Deployment", "cert-manager/cert-manager", "", ""},
	{"", "Deployment", "cert-manager/cert-manager-cainjector", "", ""},
	{"", "Deployment", "cert-manager/cert-manager-webhook", "", ""},
	{"", "Deployment", "monitoring/grafana", "", ""},
	{"", "Deployment", "monitoring/kube-state-metrics", "", ""},
	{"", "Deployment", "shop/api", `{dnsConfig: {options: [{name: ndots, value: "2"}]}}`, ""},
	{"", "Deployment", "shop/cart", "", ""},
	{"", "Deployment", "shop/mail", `{dnsConfig: {nameservers: [127.0.0.1]}}`,
		`{annotations: {dnsconfigurer.dev/ignore: loopback-nameserver}}`},
	{"", "Deployment", "shop/web", `{hostname: web}`, ""},
	{"", "StatefulSet", "argocd/argocd-application-controller", "", ""},
	{"", "StatefulSet", "data/kafka", `{setHostnameAsFQDN: true}`, ""},
	{"", "StatefulSet", "data/zookeeper", "", ""},
	{"", "StatefulSet", "monitoring/alertmanager", "", ""},
	{"", "StatefulSet", "monitoring/prometheus", "", ""},
	{"", "StatefulSet", "shop/db", "", ""},
	{"", "CronJob", "shop/backup", "", ""},
	{"", "CronJob", "shop/report", `{dnsPolicy: Default}`, ""},
	{"", "Job", "shop/migrate", "", ""},
	{"", "Pod", "shop/toolbox", "", ""},
	{"", "Pod", "data/pg-1", `{hostname: pg-1, subdomain: pg}`,
		`{ownerReferences: [{apiVersion: postgresql.example/v1, kind: Cluster, name: pg, uid: "1", controller: true}]}`},

	{"", "Service", "data/redis", `{selector: {app: redis}, ports: [{port: 6379}]}`, ""},
	{"", "Service", "data/pg", `{clusterIP: None, selector: {app: pg-1}}`, ""},
	{"", "Service", "shop/web", `{selector: {app: web}, ports: [{port: 80}]}`, ""},
	{"", "Service", "shop/payments", `{type: ExternalName, externalName: pay.example.com}`, ""},
}

// mistakesTogether is the number of mistakes that are in the same list.
const mistakesTogether = 5

// manifests returns the objects of a workload: a StatefulSet has a headless Service.
func (w workload) manifests(t *testing.T) string {
	t.Helper()
	namespace, name, _ := strings.Cut(w.name, "/")
	labels := map[string]any{"app": name}
	if w.finds != "" {
		labels["mistake"] = w.finds
	}
	meta := object{"namespace": namespace, "name": name, "labels": labels}.with(t, w.meta)
	spec := object{"containers": []any{object{"name": "app", "image": "registry.example/app:1"}}}.with(t, w.spec)
	template := object{"metadata": object{"labels": labels}, "spec": spec}
	o := object{"apiVersion": "apps/v1", "kind": w.kind, "metadata": meta}
	switch w.kind {
	case "Service":
		o["apiVersion"], o["spec"] = "v1", object{}.with(t, w.spec)
	case "Pod":
		o["apiVersion"], o["spec"] = "v1", spec
	case "Job":
		spec["restartPolicy"] = "Never"
		o["apiVersion"], o["spec"] = "batch/v1", object{"template": template}
	case "CronJob":
		spec["restartPolicy"] = "Never"
		job := object{"metadata": object{"labels": labels}, "spec": object{"template": template}}
		o["apiVersion"], o["spec"] = "batch/v1", object{"schedule": "0 4 29 2 *", "jobTemplate": job}
	default:
		o["spec"] = object{"selector": object{"matchLabels": object{"app": name}}, "template": template}
	}
	if w.kind == "Deployment" || w.kind == "StatefulSet" {
		o["spec"].(object)["replicas"] = 2
	}
	all := text(t, o)
	if w.kind == "StatefulSet" {
		o["spec"].(object)["serviceName"] = name
		all = text(t, o)
		if w.finds == "" {
			all += separator + workload{"", "Service", w.name, "{clusterIP: None, selector: {app: " + name + "}}", ""}.manifests(t)
		}
	}
	return all
}

// object is an object of the API, or a part of one.
type object map[string]any

// with adds fields, in YAML.
func (o object) with(t *testing.T, more string) object {
	t.Helper()
	if err := yaml.Unmarshal([]byte(more), &o); err != nil {
		t.Fatalf("%s: %v", more, err)
	}
	return o
}

// TestValidate_Cluster: the list that kubectl prints of a whole cluster has a finding for each mistake, at the object whose
// author can correct it, and no other. The cluster has what kubeadm installs, and what controllers make of workloads.
func TestValidate_Cluster(t *testing.T) {
	c := apiserver.Start(t)
	c.StartControllers(t, "serviceaccount-controller", "deployment-controller", "replicaset-controller", "statefulset-controller",
		"daemonset-controller", "job-controller", "cronjob-controller", "endpointslice-controller")
	l := newListed(t, c)
	l.install(t)

	var mistakes, want []string
	for _, w := range workloads {
		if w.finds != "" {
			mistakes = append(mistakes, w.finds)
			want = append(want, w.kind+" "+w.name+": "+w.finds)
		}
	}
	l.check(t, "without mistakes", mistakes, nil)
	l.check(t, "with five mistakes", mistakes[mistakesTogether:], want[:mistakesTogether])
	for i, mistake := range mistakes {
		others := slices.Delete(slices.Clone(mistakes), i, i+1)
		l.check(t, "with one mistake, "+mistake, others, want[i:i+1])
	}
	l.checkDoctor(t, []string{"external-name", "pod-sandbox", "service-no-pods", "subdomain-service", "subdomain-service"})
}

// listed is a cluster whose objects are listed.
type listed struct {
	kubectl    *apiserver.Kubectl
	kubeconfig string // path
	binary     string
	nodes      nodes
	gather     gather.Config
}

func newListed(t *testing.T, c *apiserver.Cluster) *listed {
	t.Helper()
	return &listed{kubectl: c.Kubectl(t), kubeconfig: c.KubeconfigFile(), binary: process.Build(t),
		nodes:  nodes{api: kubernetes.NewForConfigOrDie(c.Config())},
		gather: gather.Config{API: c.Config(), MaxObjects: gather.MaxObjects}}
}

// install creates the nodes, what kubeadm installs, and the workloads. A Deployment had another template before, with a mistake,
// and a CronJob has a Job.
func (l *listed) install(t *testing.T) {
	t.Helper()
	l.nodes.create(t)
	apiserver.Kubeadm(t, "addon", "all", "--kubeconfig", l.kubeconfig)
	l.nodes.mirror(t, apiserver.Kubeadm(t, "control-plane", "all", "--dry-run"))
	l.nodes.mirror(t, apiserver.Kubeadm(t, "etcd", "local", "--dry-run"))
	namespaces := map[string]bool{}
	var all []string
	for _, w := range workloads {
		namespace, _, _ := strings.Cut(w.name, "/")
		if !namespaces[namespace] {
			namespaces[namespace] = true
			l.kubectl.MustRun(t, "", "create", "namespace", namespace)
		}
		all = append(all, w.manifests(t))
	}
	manifests := strings.Join(all, separator)
	before := strings.ReplaceAll(manifests, `{"name":"ndots","value":"2"}`, `{"name":"ndots:2"}`)
	poll.UntilNil(t, "service accounts", func() error { // without one a Pod is refused
		_, _, err := l.kubectl.Run(t.Context(), before, "apply", "-f", "-")
		return err
	})
	poll.UntilNil(t, "pods", func() error { return l.nodes.run(t) })
	l.kubectl.MustRun(t, manifests, "apply", "-f", "-")
	l.kubectl.MustRun(t, "", "create", "job", "invoices-1", "--from=cronjob/invoices", "--namespace=shop")
	l.kubectl.MustRun(t, "", "create", "job", "backup-1", "--from=cronjob/backup", "--namespace=shop")
	poll.UntilNil(t, "pods", func() error { return l.nodes.run(t) })
}

// finding is a line of the command validate about an object of a List.
var finding = regexp.MustCompile(`(?m)^\S+: (?:error|warning): (.+?): items\[\d+\]\..* \((\S+)\)$`)

// check compares the findings in the list without the objects that have some mistakes.
func (l *listed) check(t *testing.T, name string, without, want []string) {
	t.Helper()
	for _, format := range []string{"yaml", "json"} {
		list := l.kubectl.MustRun(t, "", "get", "pods,replicasets,deployments,statefulsets,daemonsets,jobs,cronjobs,services",
			"--all-namespaces", "--output="+format, "--selector=mistake notin (none,"+strings.Join(without, ",")+")")
		cmd := exec.CommandContext(t.Context(), l.binary, "validate", "--cluster-dns=10.96.0.10", "-")
		cmd.Stdin = strings.NewReader(list)
		var out, summary bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &summary
		err := cmd.Run()
		var got []string
		for _, m := range finding.FindAllStringSubmatch(out.String(), -1) {
			got = append(got, m[1]+": "+m[2])
		}
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(slices.Values(want))) || cmd.ProcessState.ExitCode() > 1 {
			t.Errorf("%s, %s: %q, want %q, %v\n%s%s", name, format, got, want, err, &out, &summary)
		}
		t.Logf("%s, %s: %d bytes, %s", name, format, len(list), &summary)
	}
}

// checkDoctor compares the findings above info about the cluster with all mistakes.
func (l *listed) checkDoctor(t *testing.T, want []string) {
	t.Helper()
	poll.UntilNil(t, "the same findings of doctor", func() error { // EndpointSlices are created later than pods
		s, err := gather.Snapshot(t.Context(), l.gather)
		if err != nil || len(s.Unread) > 0 {
			t.Fatalf("%v, %v", s, err)
		}
		var codes, texts []string
		for _, f := range doctor.Run(t.Context(), s).Findings {
			if f.Severity != "info" {
				codes, texts = append(codes, f.Code), append(texts, fmt.Sprintf("%+v", f))
			}
		}
		if slices.Sort(codes); !slices.Equal(codes, want) {
			return fmt.Errorf("%q, want %q:\n%s", codes, want, strings.Join(texts, "\n"))
		}
		return nil
	})
}
