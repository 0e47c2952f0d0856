// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// changing returns a headless Service with one endpoint that changes.
func (b *bench) changing() []kubeapi.Object {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns-0", Name: "changing"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}},
	}
	return []kubeapi.Object{s, changed(0)}
}

func changed(n int) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns-0", Name: "changing-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "changing"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address(n)}}},
	}
}

func address(n int) string { return fmt.Sprintf("10.200.%d.%d", n>>8, n&255) }

// usualTTL is the TTL of records and of the cache in kubeadm's Corefile, in seconds.
const usualTTL = 30

// changingQuestion is the question whose answer changes.
var changingQuestion = ask.Question{Name: "changing.ns-0.svc." + world.Zone, Type: dns.TypeA}

// changesOf returns how long each of n changes of an endpoint took until the first reply with it, in milliseconds.
func (b *bench) changesOf(ctx context.Context, s *subject, n int) (late []float64, err error) {
	for range n {
		b.changed++
		d, err := b.change(ctx, s, b.changed)
		if err != nil {
			return nil, err
		}
		late = append(late, d.Seconds()*1e3)
	}
	return late, nil
}

// change makes the n-th change and sends queries until a reply has it.
func (b *bench) change(ctx context.Context, s *subject, n int) (time.Duration, error) {
	client, err := ask.Dial(s.Address)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if _, err := client.Ask(changingQuestion); err != nil { // so that a cache has the old reply
		return 0, err
	}
	// The pause leaves processor time to the server. An idle Go process would sleep a millisecond longer.
	pause := unix.NsecToTimespec((50 * time.Microsecond).Nanoseconds())
	begin := time.Now()
	b.api.Apply(changed(n))
	for time.Since(begin) < time.Minute && ctx.Err() == nil {
		m, err := client.Ask(changingQuestion)
		if err != nil {
			return 0, err
		}
		if m != nil && len(m.Answer) == 1 && m.Answer[0].(*dns.A).A.String() == address(n) {
			return time.Since(begin), nil
		}
		_ = unix.Nanosleep(&pause, nil) // an interrupted pause is fine
	}
	return 0, errors.Join(ctx.Err(), fmt.Errorf("%s does not see the change", s.name))
}
