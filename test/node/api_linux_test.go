// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// apiServer streams the list of a node's pods in protobuf, as API servers do on request,
// and accepts events.
type apiServer struct {
	stream []byte        // the list, up to its last bookmark
	listed chan struct{} // closed when the list was sent
	once   sync.Once
}

func newAPIServer(t testing.TB, pods []*corev1.Pod) *apiServer {
	t.Helper()
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{})
	metav1.AddToGroupVersion(kinds, corev1.SchemeGroupVersion)
	codecs := serializer.NewCodecFactory(kinds)
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	var stream strings.Builder
	frames := info.StreamSerializer.Framer.NewFrameWriter(&stream)
	send := func(kind watch.EventType, pod *corev1.Pod) {
		object, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), pod)
		if err != nil {
			t.Fatal(err)
		}
		e := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
		if err := codecs.EncoderForVersion(info.StreamSerializer, corev1.SchemeGroupVersion).Encode(e, frames); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		send(watch.Added, pod)
	}
	send(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "1000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	return &apiServer{stream: []byte(stream.String()), listed: make(chan struct{})}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("sendInitialEvents") == "true":
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		_, _ = w.Write(s.stream)
		w.(http.Flusher).Flush()
		s.once.Do(func() { close(s.listed) })
		<-r.Context().Done()
	case r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/events") || r.Method == http.MethodPatch:
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":"1001"}}`)
	default:
		http.NotFound(w, r)
	}
}

// typicalPods returns pods as large as those on nodes: a Deployment's pod after
// defaulting, admission and the kubelet's status updates. Their policy is autopath, so
// that the shim edits them.
func typicalPods(n int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, typicalPod(i))
	}
	return pods
}

func typicalPod(i int) *corev1.Pod {
	name, now := fmt.Sprintf("checkout-frontend-7c9d8f6b5-%05d", i), metav1.NewTime(time.Unix(1_800_000_000, 0))
	pod := newPod(name, corev1.PodSpec{NodeName: nodeName, ServiceAccountName: "checkout", Containers: []corev1.Container{
		typicalContainer("frontend"), typicalContainer("log-forwarder"), typicalContainer("proxy"),
	}})
	pod.Namespace, pod.UID, pod.ResourceVersion = fmt.Sprintf("team-%02d", i%12),
		types.UID(fmt.Sprintf("0a1b2c3d-4e5f-6789-abcd-%012d", i)), fmt.Sprint(100_000+i)
	withAnnotation(pod, policy.OverrideAnnotation, "ClusterFirstWithAutopath")
	withAnnotation(pod, "checksum/config", strings.Repeat("0123456789abcdef", 4))
	pod.CreationTimestamp = now
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet",
		Name: "checkout-frontend-7c9d8f6b5", UID: pod.UID}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &now,
			FieldsType: "FieldsV1", FieldsV1: fieldsOf(pod)},
		{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1",
			FieldsV1: fieldsOf(pod), Subresource: "status"},
	}
	for _, c := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: now})
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.HostIP, pod.Status.StartTime = corev1.PodRunning, "10.88.0.7", "192.0.2.7", &now
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, ImageID: "registry.example.com/checkout@sha256:" + strings.Repeat("0f", 32),
			ContainerID: "containerd://" + strings.Repeat("f0", 32),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	kube.SetDefaults(&pod.Spec)
	return pod
}

func typicalContainer(name string) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example.com/checkout/" + name + ":v1.2.3",
		Command: []string{"/usr/bin/" + name, "--config=/etc/" + name + "/config.yaml"},
		Ports:   []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/ready"}}}, PeriodSeconds: 10},
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-xxxxx", ReadOnly: true,
			MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
	}
	for i := range 6 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("CHECKOUT_SETTING_%d", i), Value: strings.Repeat("value", 5)})
	}
	return c
}

// fieldsOf returns managed fields about as large as a pod's.
func fieldsOf(pod *corev1.Pod) *metav1.FieldsV1 {
	var b strings.Builder
	b.WriteString(`{"f:metadata":{},"f:spec":{"f:containers":{`)
	for i, c := range pod.Spec.Containers {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"k:{\"name\":\"%s\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},`+
			`"f:name":{},"f:resources":{".":{},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},`+
			`"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}`, c.Name)
	}
	b.WriteString("}}}")
	return metav1.NewFieldsV1(b.String())
}
