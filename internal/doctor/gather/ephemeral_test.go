// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

// podAPI is an API server with the pod shop/web. What becomes of an ephemeral container is its state and
// its log.
type podAPI struct {
	t      *testing.T
	refuse string // why a container is not added; "": it is
	silent bool   // a container is added without a reply
	state  corev1.ContainerState
	log    string
	onRead func() // is called at the end of each request after a container was added

	beforePatch func()

	mu  sync.Mutex
	pod corev1.Pod
}

func (a *podAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if a.onRead != nil && len(a.pod.Spec.EphemeralContainers) > 0 {
		defer a.onRead()
	}
	switch request := r.Method + " " + r.URL.Path; request {
	case "GET /api/v1/namespaces/shop/pods":
		if got := r.URL.Query().Get("fieldSelector"); got != "metadata.name=web" {
			a.t.Errorf("%s", r.URL)
		}
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		list.Items = []corev1.Pod{a.pod}
		a.reply(w, list)
	case "PATCH /api/v1/namespaces/shop/pods/web/ephemeralcontainers":
		if a.refuse != "" {
			w.WriteHeader(http.StatusForbidden)
			a.reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
				Reason: metav1.StatusReasonForbidden, Message: a.refuse, Code: http.StatusForbidden})
			return
		}
		if a.beforePatch != nil {
			a.beforePatch()
		}
		var patch corev1.Pod
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || len(patch.Spec.EphemeralContainers) != 1 ||
			r.Header.Get("Content-Type") != "application/strategic-merge-patch+json" {
			a.t.Errorf("%v, %+v, %v", err, patch, r.Header)
			return
		}
		if patch.UID != a.pod.UID { // an API server does not change it
			w.WriteHeader(http.StatusUnprocessableEntity)
			a.reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
				Reason: metav1.StatusReasonInvalid, Message: "metadata.uid: field is immutable", Code: http.StatusUnprocessableEntity})
			return
		}
		c := patch.Spec.EphemeralContainers[0]
		a.pod.Spec.EphemeralContainers = append(a.pod.Spec.EphemeralContainers, c)
		a.pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, State: a.state}}
		if a.silent {
			panic(http.ErrAbortHandler)
		}
		a.reply(w, a.pod)
	case "GET /api/v1/namespaces/shop/pods/web/log":
		last := a.pod.Spec.EphemeralContainers[len(a.pod.Spec.EphemeralContainers)-1]
		if got := r.URL.Query(); got.Get("container") != last.Name || got.Get("limitBytes") != "131073" {
			a.t.Errorf("%s", r.URL)
		}
		fmt.Fprint(w, a.log)
	default:
		a.t.Error(request)
	}
}

func (a *podAPI) reply(w http.ResponseWriter, object any) {
	if err := json.NewEncoder(w).Encode(object); err != nil {
		a.t.Error(err)
	}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

const (
	fileLine = `{"resolvConf":"nameserver 10.96.0.10\n"}` + "\n"
	udpReply = `{"server":"10.96.0.10:53","role":"flag","means":"network","protocol":"udp",` +
		`"name":"kubernetes.default.svc.cluster.local.","type":"A","rcode":"NOERROR","answers":["10.96.0.1"],` +
		`"startMicros":1,"micros":2}` + "\n"
	tcpSilence = `{"server":"10.96.0.10:53","role":"flag","means":"network","protocol":"tcp",` +
		`"name":"kubernetes.default.svc.cluster.local.","type":"A","rcode":"","answers":[],"error":"timeout",` +
		`"startMicros":3,"micros":4}` + "\n"
)

// run adds a container to the pod and returns the replies, and why there are none, without the name of
// the container.
func (a *podAPI) run(ctx context.Context, t *testing.T, change func(*corev1.Pod)) (replies []string, added bool, why string) {
	t.Helper()
	a.t = t
	a.pod.Namespace, a.pod.Name, a.pod.Status.Phase = "shop", "web", corev1.PodRunning
	if change != nil {
		change(&a.pod)
	}
	api := httptest.NewServer(a)
	t.Cleanup(api.Close)
	c := Config{API: &rest.Config{Host: api.URL, QPS: -1}, Image: "dnsconfigurer:v1"}
	s := &doctor.Snapshot{Unread: map[doctor.Kind]string{}, Scope: doctor.Scope{Namespace: "shop", PodName: "web"}}
	at := netip.MustParseAddrPort("10.96.0.10:53")
	servers := []doctor.Server{{UDP: at, TCP: at, Role: doctor.RoleService}}
	plan := doctor.Plan(s, doctor.MeansContainer, servers, "", time.Time{})
	plan = slices.DeleteFunc(plan, func(q doctor.Query) bool { return q.Type != "A" })
	report, why := runContainer(ctx, c, s, plan)
	if why == "" && (report.file == nil || *report.file != "nameserver 10.96.0.10\n") {
		t.Errorf("%+v", report)
	}
	for _, p := range report.probes {
		if p.Means != doctor.MeansContainer || p.Role != doctor.RoleService {
			t.Errorf("%+v", p)
		}
		replies = append(replies, p.Protocol+" "+p.RCode+p.Error)
	}
	if s.Container != "" {
		why = strings.ReplaceAll(why, s.Container, "NAME")
	}
	return replies, s.Container != "", why
}

// withReply returns a log with a change of the first reply.
func withReply(old, text string) string { return fileLine + strings.Replace(udpReply, old, text, 1) }

// TestRunContainer: what becomes of the container, or why none is added.
func TestRunContainer(t *testing.T) {
	done := ended(0, "Completed")
	const other = "the log of the container has a line that is not about its queries: is this the image of dnsconfigurer?"
	tests := []struct {
		name   string
		api    podAPI
		change func(*corev1.Pod)
		want   []string
		why    string
	}{
		{"replies", podAPI{state: done, log: fileLine + udpReply + tcpSilence + tcpSilence}, nil,
			[]string{"udp NOERROR", "tcp timeout", "tcp timeout"}, ""},
		{"a code without a name", podAPI{state: done, log: withReply("NOERROR", "12") + tcpSilence}, nil,
			[]string{"udp 12", "tcp timeout"}, ""},
		{"an old image", podAPI{state: ended(2, "Error"), log: "unexpected argument \"query\"\n"}, nil, nil,
			`ephemeral container NAME: exit code 2: unexpected argument "query"`},
		{"an image without the program", podAPI{state: ended(128, "StartError")}, nil, nil,
			"ephemeral container NAME: exit code 128: StartError"},
		{"an image that cannot be pulled", podAPI{state: waiting("ImagePullBackOff", "not found")}, nil, nil,
			"ephemeral container NAME: it is waiting: ImagePullBackOff: not found"},
		{"another program", podAPI{state: done, log: "hello"}, nil, nil,
			"the log of the container has an invalid line: is this the image of dnsconfigurer? " +
				"invalid character 'h' looking for beginning of value"},
		{"a query too few", podAPI{state: done, log: fileLine + udpReply}, nil, nil, "the log of the container has 1 of 2 queries"},
		{"a query too many", podAPI{state: done, log: fileLine + udpReply + udpReply + udpReply}, nil, nil, other},
		{"a query to another server", podAPI{state: done, log: withReply("10.96.0.10", "10.96.0.11")}, nil, nil, other},
		{"an answer that is not an address", podAPI{state: done, log: withReply("10.96.0.1\"]", "<b>\"]")}, nil, nil,
			other},
		{"an address with a zone", podAPI{state: done, log: withReply("10.96.0.1\"]", "fe80::1%<b>\"]")}, nil, nil,
			other},
		{"an unknown code", podAPI{state: done, log: withReply("NOERROR", "OK")}, nil, nil, other},
		{"a log that is too large", podAPI{state: done, log: strings.Repeat("\n", maxLog+1)}, nil, nil,
			"log of the ephemeral container NAME: more than 131072 bytes"},
		{"no permission", podAPI{refuse: `pods "web" is forbidden: User "u" cannot patch resource "pods/ephemeralcontainers"`}, nil, nil,
			`adding an ephemeral container: pods "web" is forbidden: User "u" cannot patch resource "pods/ephemeralcontainers"`},
		{"a pod that is pending", podAPI{}, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil,
			"its phase is Pending: want Running"},
		{"a pod that ended", podAPI{}, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, nil,
			"its phase is Succeeded: want Running"},
		{"a pod that is being deleted", podAPI{}, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, nil,
			"it is being deleted"},
		{"a Windows pod", podAPI{}, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, nil,
			"it is a Windows pod, and the image is for Linux"},
		{"a pod on the network of its node", podAPI{}, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, nil,
			"it has the network of its node: run doctor on the node"},
		{"a container that the kubelet refuses", podAPI{state: waiting("CreateContainerConfigError", "runAsNonRoot")}, nil, nil,
			"ephemeral container NAME: it is waiting: CreateContainerConfigError: runAsNonRoot"},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			got, added, why := tt.api.run(t.Context(), t, tt.change)
			if tt.why != "" {
				tt.why = "pod shop/web: " + tt.why
			}
			if wantAdded := tt.api.state != (corev1.ContainerState{}); !slices.Equal(got, tt.want) || why != tt.why || added != wantAdded {
				t.Errorf("%q, added %t, why %q\nwant %q, %t, %q", got, added, why, tt.want, wantAdded, tt.why)
			}
		})
	}
}

// TestRunContainer_Bounded: none of the containers can be removed, so that a pod gets a number of them.
func TestRunContainer_Bounded(t *testing.T) {
	for n, want := range map[int]string{
		maxContainers - 1: "",
		maxContainers:     "pod shop/web: it has 10 ephemeral containers of earlier runs: delete the pod, or choose another one",
	} {
		a := podAPI{state: ended(0, "Completed"), log: fileLine + udpReply + tcpSilence}
		_, _, why := a.run(t.Context(), t, func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = make([]corev1.EphemeralContainer, n+1) // one of them is not of doctor
			for i := range n {
				p.Spec.EphemeralContainers[i].Name = fmt.Sprint(containerPrefix, i)
			}
		})
		if why != want {
			t.Errorf("%d containers: %q, want %q", n, why, want)
		}
	}
}

// TestRunContainer_Replaced: another pod with the name of the first one, before and after the container
// is added.
func TestRunContainer_Replaced(t *testing.T) {
	first := func(p *corev1.Pod) { p.UID = "1" }
	var a podAPI
	replace := func() {
		a.pod.UID = "2"
		a.pod.Spec.EphemeralContainers, a.pod.Status.EphemeralContainerStatuses = nil, nil
	}
	a = podAPI{beforePatch: replace}
	if _, added, why := a.run(t.Context(), t, first); added || len(a.pod.Spec.EphemeralContainers) != 0 ||
		why != "pod shop/web: adding an ephemeral container: metadata.uid: field is immutable" {
		t.Errorf("before: added %t, %q", added, why)
	}
	a = podAPI{onRead: replace}
	if _, added, why := a.run(t.Context(), t, first); added || !strings.HasSuffix(why, ": "+errGone.Error()) ||
		!strings.HasPrefix(why, "pod shop/web: ephemeral container "+containerPrefix) {
		t.Errorf("after: added %t, %q", added, why)
	}
}

// TestRunContainer_Silent: without a reply to the request, the pod may have the container.
func TestRunContainer_Silent(t *testing.T) {
	a := podAPI{silent: true}
	if replies, added, why := a.run(t.Context(), t, nil); !added || len(replies) > 0 ||
		!strings.HasPrefix(why, "pod shop/web: adding an ephemeral container: ") || !strings.HasSuffix(why, "EOF") {
		t.Errorf("%q, added %t, %q", replies, added, why)
	}
}

// TestRunContainer_Late: a container that does not end in time, and its state.
func TestRunContainer_Late(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := podAPI{onRead: cancel}
	if _, added, why := a.run(ctx, t, nil); !added ||
		why != "pod shop/web: ephemeral container NAME: the time was over: it has not started: set --timeout" {
		t.Errorf("added %t, %q", added, why)
	}
	for what, state := range map[string]corev1.ContainerState{
		"it has not started": {},
		"it is running":      {Running: &corev1.ContainerStateRunning{}},
		"it is waiting: ErrImagePull: dial tcp: no route":   waiting("ErrImagePull", "dial tcp: no route"),
		"it is waiting: ContainerCreating: not pulled yet ": waiting("ContainerCreating", "not pulled yet "),
	} {
		r := podRun{container: "c"}
		p := corev1.Pod{}
		p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "other"}, {Name: "c", State: state}}
		if got := describe(r.state(&p)); got != what {
			t.Errorf("%q, want %q", got, what)
		}
	}
}

// TestEphemeralContainer: the level restricted of the Pod Security Standards admits it, and the image
// decides which program its arguments are for.
func TestEphemeralContainer(t *testing.T) {
	query := doctor.Query{Server: netip.MustParseAddrPort("[fd00::a]:53"), Protocol: doctor.UDP, Name: "a.", Type: "A"}
	c := ephemeralContainer("c", "i", []doctor.Query{query})
	sc := c.SecurityContext
	if !*sc.RunAsNonRoot || *sc.RunAsUser == 0 || *sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem ||
		!slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) || sc.Capabilities.Add != nil ||
		sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || sc.Privileged != nil {
		t.Errorf("%+v", sc)
	}
	if !slices.Equal(c.Args, []string{"doctor", "query", "udp,[fd00::a]:53,A,a."}) || c.Command != nil {
		t.Errorf("%q %q", c.Command, c.Args)
	}
}
