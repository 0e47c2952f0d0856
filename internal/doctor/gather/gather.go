// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
)

const (
	// pageSize is the number of objects of a request: that of kubectl.
	pageSize = 500

	// maxConfigMaps is the number of ConfigMaps of the pods of the cluster DNS that are read.
	maxConfigMaps = 10

	systemNamespace = "kube-system"
)

// Config is what to read.
type Config struct {
	API        *rest.Config
	Scope      doctor.Scope
	MaxObjects int // of each kind; the rest is not read
}

// reader reads objects. A client is created once for each API group.
type reader struct {
	config   Config
	snapshot *doctor.Snapshot
	failed   error // the first failure to reach the server
}

// Snapshot reads the cluster. The error is that of an API server that cannot be reached at all;
// what cannot be read for another reason is recorded in Snapshot.Unread.
func Snapshot(ctx context.Context, c Config) (*doctor.Snapshot, error) {
	r := &reader{config: c, snapshot: &doctor.Snapshot{Unread: map[doctor.Kind]string{}, Scope: c.Scope}}
	s := r.snapshot
	core := corev1.SchemeGroupVersion
	r.list(ctx, request{kind: doctor.Services, version: core, list: &corev1.ServiceList{}}, collect(&s.Services))
	if r.failed != nil {
		return nil, r.failed
	}
	r.list(ctx, request{kind: doctor.Pods, version: core, list: &corev1.PodList{}}, collect(&s.Pods))
	r.list(ctx, request{kind: doctor.Nodes, version: core, list: &corev1.NodeList{}}, collect(&s.Nodes))
	r.list(ctx, request{kind: doctor.Namespaces, version: core, list: &corev1.NamespaceList{}}, collect(&s.Namespaces))
	for _, reason := range doctor.EventReasons() {
		selector := fields.OneTermEqualSelector("reason", reason)
		r.list(
			ctx,
			request{kind: doctor.Events, version: core, list: &corev1.EventList{}, namespace: c.Scope.Namespace, fields: selector},
			collect(&s.Events),
		)
	}
	r.list(
		ctx,
		request{kind: doctor.Slices, version: discoveryv1.SchemeGroupVersion, list: &discoveryv1.EndpointSliceList{}},
		collect(&s.Slices),
	)
	r.list(ctx, request{kind: doctor.Deployments, version: appsv1.SchemeGroupVersion, list: &appsv1.DeploymentList{}},
		collect(&s.Deployments))
	r.list(ctx, request{kind: doctor.DaemonSets, version: appsv1.SchemeGroupVersion, list: &appsv1.DaemonSetList{}}, collect(&s.DaemonSets))
	r.list(
		ctx,
		request{kind: doctor.Budgets, version: policyv1.SchemeGroupVersion, list: &policyv1.PodDisruptionBudgetList{}},
		collect(&s.Budgets),
	)
	r.list(
		ctx,
		request{kind: doctor.Networks, version: networkingv1.SchemeGroupVersion, list: &networkingv1.NetworkPolicyList{}},
		collect(&s.Networks),
	)
	own := admissionv1.SchemeGroupVersion
	r.list(ctx, request{kind: doctor.Policies, version: own, list: &admissionv1.ValidatingAdmissionPolicyList{}}, collect(&s.Policies))
	r.list(ctx, request{kind: doctor.Bindings, version: own, list: &admissionv1.ValidatingAdmissionPolicyBindingList{}},
		collect(&s.Bindings))
	r.list(
		ctx,
		request{kind: doctor.Validating, version: own, list: &admissionv1.ValidatingWebhookConfigurationList{}},
		collect(&s.Validating),
	)
	r.list(ctx, request{kind: doctor.Mutating, version: own, list: &admissionv1.MutatingWebhookConfigurationList{}}, collect(&s.Mutating))
	r.configMaps(ctx)
	return s, nil
}

// request is a list of the objects of a kind.
type request struct {
	kind      doctor.Kind
	version   schema.GroupVersion
	list      runtime.Object // of the type of the list
	namespace string         // "": all
	fields    fields.Selector
}

// collect appends the items of a list to into.
func collect[T any](into *[]T) func(runtime.Object) {
	return func(item runtime.Object) {
		if typed, ok := any(item).(*T); ok {
			*into = append(*into, *typed)
		}
	}
}

// list reads the objects of a request page by page, up to the limit.
func (r *reader) list(ctx context.Context, q request, add func(runtime.Object)) {
	api, err := client.New(r.config.API, q.version, q.list)
	if err != nil {
		r.unread(q.kind, err.Error())
		return
	}
	read, token := 0, ""
	for {
		page := q.list.DeepCopyObject()
		get := api.Get().NamespaceIfScoped(q.namespace, q.namespace != "").Resource(string(q.kind)).
			Param("limit", fmt.Sprint(min(pageSize, r.config.MaxObjects-read)))
		if token != "" {
			get = get.Param("continue", token)
		}
		if q.fields != nil {
			get = get.Param("fieldSelector", q.fields.String())
		}
		if err := get.Do(ctx).Into(page); err != nil {
			r.fail(q.kind, err)
			return
		}
		_ = meta.EachListItem(page, func(item runtime.Object) error {
			add(item)
			read++
			return nil
		})
		list, err := meta.ListAccessor(page)
		if err != nil || list.GetContinue() == "" {
			return
		}
		if token = list.GetContinue(); read >= r.config.MaxObjects {
			r.unread(q.kind, fmt.Sprintf("the cluster has more than %d %s: set --max-objects", r.config.MaxObjects, q.kind))
			return
		}
	}
}

func (r *reader) unread(kind doctor.Kind, why string) {
	if r.snapshot.Unread[kind] == "" {
		r.snapshot.Unread[kind] = why
	}
}

// fail records why a kind could not be read.
func (r *reader) fail(kind doctor.Kind, err error) {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	switch {
	case !answered && r.failed == nil:
		r.failed = fmt.Errorf("the API server cannot be reached: %w", err)
		fallthrough
	case !answered:
		r.unread(kind, fmt.Sprintf("list %s: %v", kind, err))
	case apierrors.IsForbidden(err):
		r.unread(kind, fmt.Sprintf("no permission to list %s: docs/doctor.md has a ClusterRole", kind))
	case apierrors.IsNotFound(err):
		r.unread(kind, fmt.Sprintf("the API server does not have %s", kind))
	default:
		r.unread(kind, fmt.Sprintf("list %s: %v", kind, err))
	}
}

// configMaps reads the kubelets' configuration and those of the cluster DNS, by name: other
// ConfigMaps are not read.
func (r *reader) configMaps(ctx context.Context) {
	api, err := client.New(r.config.API, corev1.SchemeGroupVersion, &corev1.ConfigMap{})
	if err != nil {
		r.unread(doctor.ConfigMaps, err.Error())
		return
	}
	type key struct{ namespace, name string }
	keys := []key{{systemNamespace, doctor.KubeletConfigMap}}
	seen := map[key]bool{keys[0]: true}
	for _, p := range doctor.DNSPods(doctor.FindDNSService(r.snapshot.Services), r.snapshot.Pods) {
		for _, name := range doctor.MountedConfigMaps(p) {
			if k := (key{p.Namespace, name}); !seen[k] && len(keys) < maxConfigMaps {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	for _, k := range keys {
		var c corev1.ConfigMap
		switch err := api.Get().Namespace(k.namespace).Resource("configmaps").Name(k.name).Do(ctx).Into(&c); {
		case apierrors.IsNotFound(err):
		case err != nil:
			r.fail(doctor.ConfigMaps, err)
		default:
			r.snapshot.ConfigMaps = append(r.snapshot.ConfigMaps, c)
		}
	}
}
