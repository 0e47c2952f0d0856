// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

const (
	// pageSize is the number of objects of a request: that of kubectl.
	pageSize = 500

	// pageShrink divides the number of objects of a request after a page that is too large: of
	// 500 objects of 3 MB, the fourth page has 7 and is small enough.
	pageShrink = 4

	// maxRetries is the number of times that a request is sent again if the API server closes
	// the connection before a reply, after a second each: ten, as client-go has it, take
	// longer than the time for all kinds.
	maxRetries = 1

	// maxConfigMaps is the number of ConfigMaps that are read. The others that the pods of the cluster
	// DNS mount are reported as unread.
	maxConfigMaps = 10
)

// Config is what to read.
type Config struct {
	API        *rest.Config
	Scope      doctor.Scope
	MaxObjects int // of each kind; the rest is not read

	Kubelets     bool   // call Kubelets
	ClientCounts string // one of Clients...; "": ClientsOff
	Image        string // of an ephemeral container in the pod of Scope that queries the servers, too; "": none

	Servers       []doctor.Server // that are queried; none: those of the cluster
	ExternalName  string          // that is queried, with a final dot; "": none
	ClusterDomain string          // as in doctor.Snapshot
	Timeout       time.Duration   // of the command; after three quarters, what is missing is in Snapshot.Unread

	limits limits // the zero value: the default
}

// reader reads objects. A client is created once for each API group.
type reader struct {
	config   Config
	snapshot *doctor.Snapshot
	failed   error       // the first failure to reach the server
	answered atomic.Bool // the server sent a reply, maybe only the beginning of one
}

// newReader returns a reader of the cluster of c, whose replies are bounded and recorded.
func newReader(c Config) *reader {
	r := &reader{config: c, snapshot: &doctor.Snapshot{Unread: map[doctor.Kind]string{}, Scope: c.Scope}}
	if c.limits == (limits{}) {
		r.config.limits = defaultLimits()
	}
	r.config.API = rest.CopyConfig(c.API)
	cluster.LimitReplies(r.config.API, r.config.limits.page)
	r.config.API.Wrap(func(base http.RoundTripper) http.RoundTripper { return answerRecorder{base, &r.answered} })
	return r
}

// Snapshot reads the cluster. The error is that of an API server that cannot be reached at all;
// what cannot be read for another reason is recorded in Snapshot.Unread.
func Snapshot(ctx context.Context, c Config) (*doctor.Snapshot, error) {
	r := newReader(c)
	s := r.snapshot
	for i, q := range requests(s) {
		if r.list(ctx, q); i == 0 && r.failed != nil && !r.answered.Load() {
			return nil, r.failed
		}
	}
	r.configMaps(ctx, r.configMapNames())
	return s, nil
}

// Names reads what decides the names of a cluster: all Namespaces, Services and EndpointSlices, the pods of the
// namespace of the scope, and the kubelets' configuration, which may be missing.
func Names(ctx context.Context, c Config) (*doctor.Snapshot, error) {
	r := newReader(c)
	s := r.snapshot
	if err := r.listKinds(ctx, doctor.Namespaces, doctor.Services, doctor.Slices, doctor.Pods); err != nil {
		return nil, fmt.Errorf("%w; or write the objects that matter to a file, and set -f", err)
	}
	r.configMaps(ctx, []types.NamespacedName{doctor.KubeletConfigMap})
	return s, nil
}

// listKinds reads the objects of some kinds, of the pods those in the namespace of the scope. The error is why one was not read.
func (r *reader) listKinds(ctx context.Context, kinds ...doctor.Kind) error {
	for _, q := range requests(r.snapshot) {
		if !slices.Contains(kinds, q.kind) {
			continue
		}
		if q.kind == doctor.Pods {
			q.namespace = r.config.Scope.Namespace
		}
		if r.list(ctx, q); r.snapshot.Unread[q.kind] != "" {
			return errors.New(r.snapshot.Unread[q.kind])
		}
	}
	return nil
}

// KubeletFacts returns what pods get from the kubelets: as kubeadm keeps it in the ConfigMap kubelet-config, or the
// addresses of the DNS Service. Other installers have no such ConfigMap, and a user may lack the permission to read
// it.
func KubeletFacts(s *doctor.Snapshot) (clusterDNS []string, domain string) {
	if service := doctor.FindDNSService(s.Services); service != nil {
		clusterDNS = service.Spec.ClusterIPs
	}
	for _, c := range s.ConfigMaps {
		if k, err := kube.ParseKubeletConfiguration([]byte(c.Data["kubelet"])); err == nil {
			domain = k.ClusterDomain
			if len(k.ClusterDNS) > 0 {
				clusterDNS = k.ClusterDNS
			}
		}
	}
	return clusterDNS, domain
}

// request is a list of the objects of a kind.
type request struct {
	kind      doctor.Kind
	version   schema.GroupVersion
	list      runtime.Object // of the type of the list
	add       func(runtime.Object)
	namespace string // "": all
	fields    fields.Selector
}

// requests returns what is listed, the Services first.
func requests(s *doctor.Snapshot) []request {
	core, apps, admission := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, admissionv1.SchemeGroupVersion
	discovery, networking := discoveryv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion
	list := []request{
		{kind: doctor.Services, version: core, list: &corev1.ServiceList{}, add: collect(&s.Services)},
		{kind: doctor.Pods, version: core, list: &corev1.PodList{}, add: collect(&s.Pods)},
		{kind: doctor.Nodes, version: core, list: &corev1.NodeList{}, add: collect(&s.Nodes)},
		{kind: doctor.Namespaces, version: core, list: &corev1.NamespaceList{}, add: collect(&s.Namespaces)},
		{kind: doctor.Slices, version: discovery, list: &discoveryv1.EndpointSliceList{}, add: collect(&s.Slices)},
		{kind: doctor.Deployments, version: apps, list: &appsv1.DeploymentList{}, add: collect(&s.Deployments)},
		{kind: doctor.DaemonSets, version: apps, list: &appsv1.DaemonSetList{}, add: collect(&s.DaemonSets)},
		{kind: doctor.Networks, version: networking, list: &networkingv1.NetworkPolicyList{}, add: collect(&s.Networks)},
		{kind: doctor.Policies, version: admission, list: &admissionv1.ValidatingAdmissionPolicyList{}, add: collect(&s.Policies)},
		{kind: doctor.Bindings, version: admission, list: &admissionv1.ValidatingAdmissionPolicyBindingList{}, add: collect(&s.Bindings)},
		{kind: doctor.Validating, version: admission, list: &admissionv1.ValidatingWebhookConfigurationList{}, add: collect(&s.Validating)},
		{kind: doctor.Mutating, version: admission, list: &admissionv1.MutatingWebhookConfigurationList{}, add: collect(&s.Mutating)},
	}
	reasons := doctor.EventReasons()
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, request{kind: doctor.Events, version: core, list: &corev1.EventList{}, add: collect(&s.Events),
			namespace: cmp.Or(reasons[reason], s.Scope.Namespace), fields: fields.OneTermEqualSelector("reason", reason)})
	}
	return list
}

func collect[T any](into *[]T) func(runtime.Object) {
	return func(item runtime.Object) {
		if typed, ok := any(item).(*T); ok {
			*into = append(*into, *typed)
		}
	}
}

// list reads the objects of a request page by page, up to the limits. After a page that is too
// large, pages have fewer objects.
func (r *reader) list(ctx context.Context, q request) {
	api, err := cluster.NewClient(r.config.API, q.version, q.list)
	if err != nil {
		r.unread(q.kind, err.Error())
		return
	}
	p := pages{request: q, api: api, limit: pageSize}
	for {
		page, err := p.next(ctx, r.config.MaxObjects-p.read)
		if errors.Is(err, cluster.ErrLargeReply) && p.limit > 1 {
			p.limit = max(1, p.limit/pageShrink)
			continue
		}
		if err != nil {
			r.fail(q.kind, err)
			return
		}
		if !p.addAll(page, r.config.limits.kind) {
			r.unread(q.kind, fmt.Sprintf("the %s have more than %d bytes: %d of them were read", q.kind, r.config.limits.kind, p.read))
			return
		}
		if p.token == "" {
			return
		}
		if p.read >= r.config.MaxObjects {
			r.unread(q.kind, fmt.Sprintf("the cluster has more than %d %s: set --namespace", r.config.MaxObjects, q.kind))
			return
		}
	}
}

// pages are the pages of a list, as far as they are read.
type pages struct {
	request
	api   rest.Interface
	limit int    // objects of a page
	token string // of the next page
	read  int    // objects
	size  int    // bytes
}

// next reads the next page of at most a number of objects.
func (p *pages) next(ctx context.Context, most int) (runtime.Object, error) {
	page := p.list.DeepCopyObject()
	get := p.api.Get().NamespaceIfScoped(p.namespace, p.namespace != "").Resource(string(p.kind)).
		Param("limit", fmt.Sprint(min(p.limit, most))).MaxRetries(maxRetries)
	if p.token != "" {
		get = get.Param("continue", p.token)
	}
	if p.fields != nil {
		get = get.Param("fieldSelector", p.fields.String())
	}
	if err := get.Do(ctx).Into(page); err != nil {
		return nil, err
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return nil, err
	}
	p.token = list.GetContinue()
	return page, nil
}

// addAll adds the objects of a page; ok is false if they exceed the size of all of a kind.
func (p *pages) addAll(page runtime.Object, most int) (ok bool) {
	err := meta.EachListItem(page, func(item runtime.Object) error {
		trim(item)
		if o, ok := item.(interface{ Size() int }); ok { // as all objects of the API
			p.size += o.Size()
		}
		if p.size > most {
			return errors.New("the objects are too large")
		}
		p.add(item)
		p.read++
		return nil
	})
	return err == nil
}

func (r *reader) unread(kind doctor.Kind, why string) {
	if r.snapshot.Unread[kind] == "" {
		r.snapshot.Unread[kind] = why
	}
}

func (r *reader) fail(kind doctor.Kind, err error) {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	if !answered && r.failed == nil {
		r.failed = fmt.Errorf("the API server cannot be reached: %w", err)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why := fmt.Sprintf("list %s: not finished in time", kind)
		if r.config.Timeout > 0 { // the command has the flag
			why += ": set --timeout"
		}
		r.unread(kind, why)
	case apierrors.IsForbidden(err):
		r.unread(kind, fmt.Sprintf("no permission to list %s: docs/debugging.md has a ClusterRole", kind))
	case apierrors.IsNotFound(err):
		r.unread(kind, fmt.Sprintf("the API server does not have %s", kind))
	default:
		r.unread(kind, fmt.Sprintf("list %s: %v", kind, err))
	}
}

// configMaps reads ConfigMaps by name: others are not read, and a Role may permit some of these only.
func (r *reader) configMaps(ctx context.Context, names []types.NamespacedName) {
	api, err := cluster.NewClient(r.config.API, corev1.SchemeGroupVersion, &corev1.ConfigMap{})
	if err != nil {
		r.unread(doctor.ConfigMaps, err.Error())
		return
	}
	r.snapshot.UnreadConfigMaps = map[types.NamespacedName]string{}
	for i, name := range names {
		if i >= maxConfigMaps {
			r.snapshot.UnreadConfigMaps[name] = fmt.Sprintf("ConfigMap %s: not read: the limit is %d ConfigMaps", name, maxConfigMaps)
			continue
		}
		var c corev1.ConfigMap
		switch err := api.Get().Namespace(name.Namespace).Resource("configmaps").Name(name.Name).Do(ctx).Into(&c); {
		case err == nil:
			r.snapshot.ConfigMaps = append(r.snapshot.ConfigMaps, c)
		case apierrors.IsForbidden(err):
			r.snapshot.UnreadConfigMaps[name] = fmt.Sprintf("no permission to get ConfigMap %s: docs/debugging.md has a ClusterRole", name)
		case !apierrors.IsNotFound(err):
			r.snapshot.UnreadConfigMaps[name] = fmt.Sprintf("get ConfigMap %s: %v", name, err)
		}
	}
}

// configMapNames returns the names of the kubelets' configuration and of the ConfigMaps that the pods
// of the cluster DNS and of node caches mount, each once.
func (r *reader) configMapNames() []types.NamespacedName {
	names := []types.NamespacedName{doctor.KubeletConfigMap}
	for _, p := range doctor.DNSPods(doctor.FindDNSService(r.snapshot.Services), r.snapshot.Pods) {
		names = append(names, doctor.MountedConfigMaps(p.Namespace, &p.Spec)...)
	}
	for _, d := range doctor.NodeCaches(r.snapshot) {
		names = append(names, doctor.MountedConfigMaps(d.Namespace, &d.Spec.Template.Spec)...)
	}
	seen := map[types.NamespacedName]bool{}
	return slices.DeleteFunc(names, func(name types.NamespacedName) bool {
		isKnown := seen[name]
		seen[name] = true
		return isKnown
	})
}

// answerRecorder records whether there was a reply.
type answerRecorder struct {
	http.RoundTripper
	answered *atomic.Bool
}

func (a answerRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		a.answered.Store(true)
	}
	return response, err
}
