// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

const (
	// maxServers is the number of servers whose counts are read.
	maxServers = 500

	// serverTime is how long a server may take for a reply.
	serverTime = 10 * time.Second

	// maxClientReport is the size of a report: the counters of a server are bounded, and 4,096 clients with 1,000
	// names take less than two megabytes for each of its readers.
	maxClientReport = 16 << 20

	// portForwardProtocol is the only version that the kubelet serves (k8s.io/client-go/tools/portforward).
	portForwardProtocol = "portforward.k8s.io"
)

// serverLabels select the pods of the DNS servers, as the chart and deploy/ label them.
var serverLabels = map[string][]string{
	"app.kubernetes.io/component": {"dns", "node-cache"},
	"app.kubernetes.io/name":      {"dnsconfigurer", "dnsconfigurer-dns", "dnsconfigurer-node-cache"},
}

// Clients reads what the DNS servers of the cluster know about their clients, and the pods of the namespace of the
// scope. notRead has the servers that could not be read. An error is that of the API server.
func Clients(ctx context.Context, c Config) (sources []doctor.ClientSource, pods []corev1.Pod, notRead []string, err error) {
	r := newReader(c)
	if err := r.listKinds(ctx, doctor.Pods); err != nil {
		return nil, nil, nil, err
	}
	sources, notRead, err = readServers(ctx, c.API)
	return sources, r.snapshot.Pods, notRead, err
}

// The values of Config.ClientCounts.
const (
	ClientsOff    = "off"
	ClientsCounts = "counts"
	ClientsNames  = "names"
)

func addClients(ctx context.Context, c Config, s *doctor.Snapshot) {
	sources, notRead, err := readServers(ctx, c.API)
	switch {
	case err != nil:
		s.Unread[doctor.Clients] = err.Error()
	case len(notRead) > 0:
		s.Unread[doctor.Clients] = fmt.Sprintf("%d servers not read: %s", len(notRead), notRead[0])
	case len(sources) == 0:
		s.Unread[doctor.Clients] = "the cluster has no pods of dnsconfigurer's DNS servers"
	}
	s.Clients, s.Names = sources, c.ClientCounts == ClientsNames
}

func readServers(ctx context.Context, api *rest.Config) (sources []doctor.ClientSource, notRead []string, err error) {
	servers, err := listServers(ctx, api)
	if err != nil {
		return nil, nil, err
	}
	if len(servers) > maxServers {
		notRead = append(notRead, fmt.Sprintf("%d of %d servers: the limit is %d", len(servers)-maxServers, len(servers), maxServers))
		servers = servers[:maxServers]
	}
	sources, errs := forEach(servers, func(p *corev1.Pod) (doctor.ClientSource, error) {
		s, err := readClients(ctx, api, p)
		if err != nil {
			err = fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		return s, err
	})
	for _, err := range errs {
		notRead = append(notRead, err.Error())
	}
	return sources, notRead, nil
}

// listServers returns the running pods of DNS servers.
func listServers(ctx context.Context, config *rest.Config) ([]corev1.Pod, error) {
	api, err := cluster.NewClient(config, corev1.SchemeGroupVersion, &corev1.PodList{})
	if err != nil {
		return nil, err
	}
	selector := labels.NewSelector()
	for key, values := range serverLabels {
		one, err := labels.NewRequirement(key, selection.In, values)
		if err != nil {
			return nil, err
		}
		selector = selector.Add(*one)
	}
	var list corev1.PodList
	if err := api.Get().Resource("pods").Param("labelSelector", selector.String()).
		Param("fieldSelector", "status.phase=Running").MaxRetries(maxRetries).Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list the pods of DNS servers: %w", err)
	}
	return list.Items, nil
}

// readClients returns the report of the server in a pod. Its page is for clients on the same machine, which those of
// a forwarded port are.
func readClients(ctx context.Context, config *rest.Config, pod *corev1.Pod) (doctor.ClientSource, error) {
	port := httpPort(pod)
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || port == 0 {
		return doctor.ClientSource{}, errors.New("it has no address, or no readiness probe with the port of its pages")
	}
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	conn, err := dialPod(config, pod)
	if err != nil {
		return doctor.ClientSource{}, fmt.Errorf("forward a port (pods/portforward): %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	s := doctor.ClientSource{Address: addr.Unmap()}
	text, err := get(conn, port, "/clients")
	if err == nil {
		err = json.Unmarshal(text, &s.Report)
	}
	if err == nil {
		text, err = get(conn, port, "/metrics")
		s.Refused = refusedQueries(string(text))
	}
	if err != nil {
		return doctor.ClientSource{}, cmp.Or(ctx.Err(), err)
	}
	return s, nil
}

// refusedQueries returns the number of queries that a server refused because of a limit, from its metrics.
func refusedQueries(metrics string) (sum uint64) {
	for line := range strings.Lines(metrics) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, "dnsconfigurer_dns_refusals_total{") && isLimit.MatchString(series) {
			n, _ := strconv.ParseFloat(value, 64) // 0 for another text
			sum += uint64(n)
		}
	}
	return sum
}

var isLimit = regexp.MustCompile(`reason="(budget|replaced|resources|upstream)"`)

// httpPort returns the port of the pages of a server, which its readiness probe uses, or 0.
func httpPort(pod *corev1.Pod) int {
	for _, c := range pod.Spec.Containers {
		if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet == nil {
			continue
		}
		port := c.ReadinessProbe.HTTPGet.Port
		for _, named := range c.Ports {
			if named.Name == port.StrVal && port.StrVal != "" {
				return int(named.ContainerPort)
			}
		}
		return port.IntValue()
	}
	return 0
}

// dialPod returns a connection over which ports of a pod are forwarded.
func dialPod(config *rest.Config, pod *corev1.Pod) (httpstream.Connection, error) {
	api, err := cluster.NewClient(config, corev1.SchemeGroupVersion, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	url := api.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("portforward").URL()
	conn, _, err := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport, Timeout: serverTime}, http.MethodPost, url).
		Dial(portForwardProtocol)
	return conn, err
}

// get reads a page of a port of the pod. A forwarded port has a stream for errors and one for data.
func get(conn httpstream.Connection, port int, path string) ([]byte, error) {
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(port))
	header.Set(corev1.PortForwardRequestIDHeader, path) // unique in the connection
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := conn.CreateStream(header)
	if err != nil {
		return nil, err
	}
	failures.Close() // nothing is sent
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(header)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	if err := request.Write(data); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(data), request)
	if err != nil {
		text, _ := io.ReadAll(io.LimitReader(failures, maxReason))
		return nil, fmt.Errorf("port %d: %w %s", port, err, text)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("port %d: %s for %s: upgrade this server", port, response.Status, path)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxClientReport))
}

const maxReason = 1 << 10
