// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

const (
	system = "kube-system"

	// The keys of CoreDNS in package dnsfaults, and of the Service in front of it.
	corefileKey   = "ConfigMap kube-system/coredns"
	deploymentKey = "Deployment kube-system/coredns"
	dnsServiceKey = "Service kube-system/kube-dns"

	coreDNSImage = "localhost/coredns:1"

	// serverLabel is the label by which the Service of the cluster DNS selects one of the servers.
	serverLabel = "server"
	healthy     = "healthy"
)

// isOfCoreDNS reports whether a fault needs CoreDNS as the cluster DNS.
func isOfCoreDNS(f dnsfaults.Fault) bool {
	return slices.ContainsFunc(f.Changed(), func(key string) bool { return key == corefileKey || key == deploymentKey })
}

// server is a cluster DNS with a fault.
type server struct {
	fault dnsfaults.Fault
	label string // the value of serverLabel of its pods
}

// servers are pods of CoreDNS with faults.
type servers struct {
	*faultTest
	corefile string // of the healthy cluster
	list     []server
}

// startServers creates CoreDNS with a fault each, in pods that the Service does not select yet.
func (f *faultTest) startServers(t *testing.T) *servers {
	t.Helper()
	image := filepath.Join(f.Dir, "coredns.tar")
	nodetools.WriteImage(t, image, coreDNSImage, f.CoreDNS)
	f.ctr(t, "import", image)
	objects, _, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	s := &servers{faultTest: f, corefile: corefileOf(objects[corefileKey])}
	s.start(t, s.newPod(t, healthy, s.corefile))
	faults, err := dnsfaults.LoadLive()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		if patch := fault.Merge[corefileKey]; patch != nil {
			s.addCorefile(t, fault, corefileOf(patch))
		}
	}
	s.addCorefiles(t)
	s.addPods(t)
	return s
}

func corefileOf(config dnsfaults.Object) string {
	return fmt.Sprint(config["data"].(map[string]any)["Corefile"])
}

// addCorefile adds a server whose Corefile has the fault.
func (s *servers) addCorefile(t *testing.T, fault dnsfaults.Fault, corefile string) {
	t.Helper()
	label := s.next()
	if fault.Object == corefileKey {
		fault.Object = "ConfigMap " + system + "/" + label
	}
	s.start(t, s.newPod(t, label, corefile))
	s.list = append(s.list, server{fault, label})
}

// next returns the label of the next server.
func (s *servers) next() string { return fmt.Sprintf("coredns-%d", len(s.list)+1) }

// replace returns the healthy Corefile with another text.
func (s *servers) replace(t *testing.T, old, text string) string {
	t.Helper()
	if !strings.Contains(s.corefile, old) {
		t.Fatalf("no %q in the Corefile", old)
	}
	return strings.Replace(s.corefile, old, text, 1)
}

// addCorefiles adds servers whose fault only queries find.
func (s *servers) addCorefiles(t *testing.T) {
	t.Helper()
	s.addCorefile(t, dnsfaults.Fault{
		Name: "the servers to which CoreDNS forwards do not listen", Finds: []string{"probe-external"},
		Evidence: ".names.example.com. A @10.96.0.10:53 over udp: SERVFAIL", Object: "DNS server 10.96.0.10:53",
	}, s.replace(t, "forward . /etc/resolv.conf", "forward . "+nodeIP))
	s.addCorefile(t, dnsfaults.Fault{
		Name: "CoreDNS answers AAAA with NXDOMAIN", Finds: []string{"corefile-lost-names"},
		Evidence: "template IN AAAA", Object: corefileKey,
	}, s.replace(t, "    prometheus", "    template IN AAAA {\n       rcode NXDOMAIN\n    }\n    prometheus"))
	s.addCorefile(t, dnsfaults.Fault{
		Name: "one of two pods of CoreDNS has a stale address", Finds: []string{"probe-wrong-answer"},
		Evidence: ". A @10.244.", // the address of the Service leads to either
	}, s.replace(t, "    prometheus",
		"    hosts {\n       10.96.0.99 kubernetes.default.svc.cluster.local\n       fallthrough\n    }\n    prometheus"))
	s.addGood(t)
}

// addGood adds a pod without a fault to the last server.
func (s *servers) addGood(t *testing.T) {
	t.Helper()
	label := s.list[len(s.list)-1].label
	pod := s.newPod(t, label+"-good", s.corefile)
	pod.Labels[serverLabel] = label
	s.start(t, pod)
}

// addPods adds servers with the healthy Corefile, whose pods have the fault.
func (s *servers) addPods(t *testing.T) {
	t.Helper()
	for _, f := range []struct {
		fault  dnsfaults.Fault
		change func(*corev1.PodSpec)
	}{
		{dnsfaults.Fault{
			Name: "the registry of the image of CoreDNS does not reply", Finds: []string{"dns-pod-not-started"},
			Evidence: "ImagePullBackOff",
		}, func(p *corev1.PodSpec) {
			p.Containers[0].Image, p.Containers[0].ImagePullPolicy = nodeIP+":5000/coredns:v1", corev1.PullIfNotPresent
		}},
		{dnsfaults.Fault{
			Name:     "CoreDNS runs out of memory",
			Finds:    []string{"dns-crash-loop", "dns-resources"},
			Evidence: "last exit: OOMKilled, exit code 137",
		}, func(p *corev1.PodSpec) {
			limit := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("30Mi")}
			p.Containers[0].Resources = corev1.ResourceRequirements{Limits: limit, Requests: limit}
			p.Containers[0].Image = nodetools.LibrariesImage
			p.Containers[0].Command = []string{"/bin/busybox", "sh", "-c", "x=xxxxxxxx; while :; do x=$x$x; done"}
		}},
		{dnsfaults.Fault{
			Name: "no node has the memory that CoreDNS requests", Finds: []string{"dns-pod-not-started"},
			Evidence: "Insufficient memory",
		}, func(p *corev1.PodSpec) {
			p.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Pi")
		}},
		{dnsfaults.Fault{
			Name: "a mount of CoreDNS has no ConfigMap", Finds: []string{"corefile-missing"},
			Evidence: "volume config", Object: "ConfigMap kube-system/none",
		}, func(p *corev1.PodSpec) { p.Volumes[0].ConfigMap.Name = "none" }},
		{dnsfaults.Fault{
			Name: "the command of CoreDNS does not exist", Finds: []string{"dns-crash-loop"},
			Evidence: "last exit: StartError, exit code 128",
		}, func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"/coredns"} }},
		{dnsfaults.Fault{
			Name: "CoreDNS runs with dnsPolicy ClusterFirst", Finds: []string{"corefile-loop"},
			Evidence: "spec.dnsPolicy: ClusterFirst",
		}, func(p *corev1.PodSpec) { p.DNSPolicy = corev1.DNSClusterFirst }},
		{dnsfaults.Fault{
			Name: "CoreDNS has no permission to list Services", Finds: []string{"probe-wrong-answer"},
			Evidence: "kubernetes.default.svc.cluster.local. A @10.96.0.10:53 over udp: SERVFAIL",
		}, func(p *corev1.PodSpec) { p.ServiceAccountName, p.Containers[0].ReadinessProbe = "default", nil }},
		{dnsfaults.Fault{
			Name: "the CPU limit of CoreDNS is too small", Finds: []string{"dns-resources"}, Evidence: "limits.cpu 90m",
		}, func(p *corev1.PodSpec) {
			p.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("90m")}
			p.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1m")
		}},
		{dnsfaults.Fault{
			Name: "one of two pods of CoreDNS does not become ready", Finds: []string{"dns-endpoints-not-ready"}, Evidence: "not ready",
		}, func(p *corev1.PodSpec) { p.Containers[0].ReadinessProbe.HTTPGet.Port = intstr.FromInt32(1) }},
	} {
		label := s.next()
		pod := s.newPod(t, label, s.corefile)
		f.change(&pod.Spec)
		switch code := f.fault.Finds[0]; {
		case f.fault.Object != "":
		case strings.HasPrefix(code, "corefile"):
			f.fault.Object = "ConfigMap " + system + "/" + label
		case strings.HasPrefix(code, "probe"):
			f.fault.Object = "DNS server " + dnsIP + ":53"
		default:
			f.fault.Object = "Pod " + system + "/" + label
		}
		s.start(t, pod)
		s.list = append(s.list, server{f.fault, label})
	}
	s.addGood(t)
}

// newPod returns a pod of CoreDNS, and creates the ConfigMap with its Corefile.
func (s *servers) newPod(t *testing.T, label, corefile string) *corev1.Pod {
	t.Helper()
	s.objects.create(t, dnsfaults.Object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": label, "namespace": system, "labels": map[string]any{"k8s-app": "coredns"}},
		"data":     map[string]any{"Corefile": corefile},
	})
	yes := true
	p := newPod(label, corev1.PodSpec{DNSPolicy: corev1.DNSDefault, ServiceAccountName: "dnsconfigurer-dns"})
	p.Namespace, p.Labels, p.Spec.AutomountServiceAccountToken = system, map[string]string{"k8s-app": "coredns", serverLabel: label}, &yes
	p.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: label},
	}}}}
	p.Spec.Containers = []corev1.Container{{
		Name: "coredns", Image: coreDNSImage, ImagePullPolicy: corev1.PullNever,
		Command:      []string{"/program", "-conf", "/etc/coredns/Corefile"},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}},
		Ports: []corev1.ContainerPort{
			{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
			{Name: "dns-tcp", ContainerPort: 53, Protocol: corev1.ProtocolTCP},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("70Mi")}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/ready", Port: intstr.FromInt32(8181),
		}}},
	}}
	return p
}

// start creates a pod, or another object.
func (s *servers) start(t *testing.T, object any) {
	t.Helper()
	o := objectOf(t, object)
	s.objects.request(t, http.MethodPost, o.Collection(), o)
}

func objectOf(t *testing.T, object any) (o dnsfaults.Object) {
	t.Helper()
	if err := json.Unmarshal(encode(t, object), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// testServers makes each server the cluster DNS.
func (f *faultTest) testServers(t *testing.T, s *servers) {
	service := f.objects.request(t, http.MethodGet, f.base[dnsServiceKey].Path(), nil)
	restore := func() {
		f.objects.change(t, f.objects.request(t, http.MethodGet, service.Path(), nil), selectorOf(service))
	}
	s.serve(t, healthy)
	f.awaitHealthy(t)
	for _, server := range s.list {
		s.serve(t, server.label)
		server.fault.Flags = []string{"--kubelets"} // the Corefile may have another domain
		f.find(t, server.fault)
	}
	s.testScaledToZero(t)
	s.testRefused(t)
	restore()
	f.run(t, "", "delete", "pods,configmaps", "--namespace", system, "--selector", "k8s-app=coredns", "--wait=false")
}

// selectorOf returns a patch with the selector of a Service, and without the labels of servers.
func selectorOf(service dnsfaults.Object) dnsfaults.Object {
	selector := map[string]any{"k8s-app": nil, serverLabel: nil}
	for key, value := range service["spec"].(map[string]any)["selector"].(map[string]any) {
		selector[key] = value
	}
	return dnsfaults.Object{"spec": map[string]any{"selector": selector}}
}

// serve makes the pods with a label the cluster DNS.
func (s *servers) serve(t *testing.T, label string) {
	t.Helper()
	s.objects.request(t, http.MethodPatch, s.base[dnsServiceKey].Path(), dnsfaults.Object{"spec": map[string]any{
		"selector": map[string]any{"k8s-app": "coredns", serverLabel: label},
	}})
}

// deployment returns a Deployment of CoreDNS.
func (s *servers) deployment(t *testing.T, name, priority string) *appsv1.Deployment {
	t.Helper()
	pod, one := s.newPod(t, name, s.corefile), int32(1)
	pod.Spec.PriorityClassName = priority
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}

// testScaledToZero scales a Deployment of CoreDNS to zero.
func (s *servers) testScaledToZero(t *testing.T) {
	t.Helper()
	faults, err := dnsfaults.LoadLive()
	if err != nil {
		t.Fatal(err)
	}
	deployment := s.deployment(t, "coredns", "")
	s.start(t, deployment)
	s.serve(t, deployment.Name)
	s.awaitHealthy(t)
	for _, fault := range faults {
		if fault.Merge[deploymentKey] != nil {
			takeBack := s.objects.apply(t, fault, s.base)
			fault.Flags = []string{"--kubelets"}
			s.find(t, fault)
			takeBack()
			s.awaitHealthy(t)
		}
	}
	s.objects.remove(t, objectOf(t, deployment))
}

// testRefused has a quota that refuses the pods of CoreDNS.
func (s *servers) testRefused(t *testing.T) {
	t.Helper()
	const priority = "system-node-critical"
	quota := objectOf(t, &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: "critical", Namespace: system},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{priority},
			}}},
		},
	})
	s.objects.create(t, quota)
	await(t, "the quota", func() error {
		if s.objects.request(t, http.MethodGet, quota.Path(), nil)["status"] == nil {
			return errors.New("no status")
		}
		return nil
	})
	deployment := s.deployment(t, "coredns-refused", priority)
	s.start(t, deployment)
	s.serve(t, deployment.Name)
	s.find(t, dnsfaults.Fault{
		Name: "a quota refuses the pods of CoreDNS", Finds: []string{"dns-pod-not-started"},
		Evidence: "exceeded quota: critical", Object: "Deployment kube-system/coredns-refused",
	})
	s.objects.remove(t, objectOf(t, deployment))
	s.objects.remove(t, quota)
}
