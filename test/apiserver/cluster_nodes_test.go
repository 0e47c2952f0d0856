// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// nodes are the nodes of a cluster without kubelets and a scheduler: the objects of the API have what these would write.
type nodes struct {
	api   kubernetes.Interface
	list  []*corev1.Node // the first one has the control plane
	bound int            // pods
}

const controlPlane = "node-role.kubernetes.io/control-plane"

func (n *nodes) create(t *testing.T) {
	t.Helper()
	for _, name := range []string{"cp-1", "worker-1", "worker-2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		node = must.Get(n.api.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))(t)
		node.Spec.Taints = nil // of a new node
		if name == "cp-1" {
			node.Labels[controlPlane] = ""
			node.Spec.Taints = []corev1.Taint{{Key: controlPlane, Effect: corev1.TaintEffectNoSchedule}}
		}
		node = must.Get(n.api.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}))(t)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		node = must.Get(n.api.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}))(t)
		n.list = append(n.list, node)
	}
}

// mirror creates the mirror pods of the static pods in a directory, as the kubelet of the control plane does.
func (n *nodes) mirror(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var p corev1.Pod
		manifest, err := os.ReadFile(file)
		must.Succeed(t, errors.Join(err, yaml.Unmarshal(manifest, &p)))
		node := n.list[0]
		p.Name, p.Spec.NodeName = p.Name+"-"+node.Name, node.Name
		for _, name := range []string{"hash", "mirror", "seen", "source"} {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "kubernetes.io/config."+name, "file")
		}
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true)}
		p.OwnerReferences = []metav1.OwnerReference{owner}
		must.Get(n.api.CoreV1().Pods(p.Namespace).Create(t.Context(), &p, metav1.CreateOptions{}))(t)
	}
}

// run binds the pods without a node, and sets the status of the others. The error says what the controllers have not done yet.
func (n *nodes) run(t *testing.T) error {
	t.Helper()
	pods, err := n.api.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	isDone := true
	for i := range pods.Items {
		p := &pods.Items[i]
		switch {
		case p.Spec.NodeName == "":
			isDone = false
			err = n.bind(t.Context(), p)
		case p.Status.StartTime == nil && p.DeletionTimestamp == nil:
			isDone = false
			err = n.start(t.Context(), p)
		case p.DeletionTimestamp != nil:
			isDone = false
			err = n.api.CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		}
		if err != nil {
			t.Logf("pod %s/%s: %v", p.Namespace, p.Name, err) // it has changed since
		}
	}
	if !isDone {
		return errors.New("some pods have changed")
	}
	return n.missing(t.Context())
}

// bind binds a pod to the node of its DaemonSet, or to the next worker.
func (n *nodes) bind(ctx context.Context, p *corev1.Pod) error {
	n.bound++
	node := n.list[1+n.bound%2].Name
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				node = field.Values[0]
			}
		}
	}
	return n.api.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
}

// start sets the status of a pod: it runs and is ready. Jobs without a mistake end at once, and the kubelet refuses an FQDN that
// is too long.
func (n *nodes) start(ctx context.Context, p *corev1.Pod) error {
	n.bound++
	s := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.Now()), HostIP: "192.0.2.1",
		PodIP: fmt.Sprintf("10.244.%d.%d", n.bound/250, n.bound%250+1)}
	ready := corev1.ConditionTrue
	switch owner := metav1.GetControllerOfNoCopy(p); {
	case owner != nil && owner.Kind == "Job" && p.Labels["mistake"] == "":
		s.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
	case p.Labels["mistake"] == "fqdn-too-long":
		s.Phase, ready = corev1.PodPending, corev1.ConditionFalse
	}
	s.HostIPs, s.PodIPs = []corev1.HostIP{{IP: s.HostIP}}, []corev1.PodIP{{IP: s.PodIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: ready})
	}
	for _, c := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image,
			Ready: ready == corev1.ConditionTrue})
	}
	p.Status = s
	_, err := n.api.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	return err
}

// missing returns an error about the controllers that have not created all of their pods, and deleted the others.
func (n *nodes) missing(ctx context.Context) error {
	deployments, err1 := n.api.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	sets, err2 := n.api.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{})
	daemons, err3 := n.api.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
	jobs, err4 := n.api.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	var waiting []string
	add := func(kind, name string, isDone bool) {
		if !isDone {
			waiting = append(waiting, kind+" "+name)
		}
	}
	for _, d := range deployments.Items {
		s := d.Status
		add("Deployment", d.Name, s.ObservedGeneration >= d.Generation && s.Replicas == *d.Spec.Replicas && s.UpdatedReplicas == s.Replicas)
	}
	for _, s := range sets.Items {
		add("StatefulSet", s.Name, s.Status.Replicas == *s.Spec.Replicas)
	}
	for _, d := range daemons.Items {
		s := d.Status
		add("DaemonSet", d.Name, s.DesiredNumberScheduled >= 2 && s.CurrentNumberScheduled == s.DesiredNumberScheduled)
	}
	for _, j := range jobs.Items {
		add("Job", j.Name, j.Status.Active > 0 || len(j.Status.Conditions) > 0)
	}
	if waiting != nil {
		return fmt.Errorf("some controllers have more to do: %q", waiting)
	}
	return nil
}
