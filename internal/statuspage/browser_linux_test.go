// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package statuspage_test

import (
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/statuspage"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
)

// TestPage_Browser shows the page in Chromium. The screenshots are artifacts of the test: see
// `go test -artifacts`.
func TestPage_Browser(t *testing.T) {
	debian.Install(t, "chromium", "chromium")
	log := slog.New(statuspage.Record(slog.DiscardHandler))
	log.Error("upstream server failed", "server", "192.0.2.53:53", "error", "timeout")
	server := httptest.NewServer(&statuspage.Page{
		Metrics: testRegistry(), Ready: ready, Problems: statuspage.ProblemsOf(log), Started: time.Now(),
	})
	defer server.Close()

	profile := t.TempDir()
	chromium := func(args ...string) string {
		t.Helper()
		args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + profile}, args...)
		cmd := exec.CommandContext(t.Context(), "chromium", append(args, server.URL)...)
		var problems strings.Builder
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("chromium: %v\n%s", err, problems.String())
		}
		return string(out)
	}
	for name, size := range map[string][2]int{"desktop.png": {1280, 900}, "phone.png": {500, 900}} {
		file := filepath.Join(t.ArtifactDir(), name)
		chromium("--screenshot="+file, fmt.Sprintf("--window-size=%d,%d", size[0], size[1]))
		checkScreenshot(t, file, size)
	}
	document := chromium("--dump-dom")
	for _, want := range []string{"upstream server failed server=192.0.2.53:53 error=timeout", "Queries", "<td>41</td>"} {
		if !strings.Contains(document, want) {
			t.Errorf("the browser shows no %q:\n%s", want, document)
		}
	}
}

// checkScreenshot checks that a picture has the size of the window and is not of one color.
func checkScreenshot(t *testing.T, file string, size [2]int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := picture.Bounds(); got != image.Rect(0, 0, size[0], size[1]) {
		t.Errorf("%s: %v, want %v", file, got, size)
	}
	drawn := 0 // pixels of text and lines
	for y := range size[1] {
		for x := range size[0] {
			if picture.At(x, y) != picture.At(0, 0) {
				drawn++
			}
		}
	}
	if drawn < 1000 {
		t.Errorf("%s: %d pixels are drawn", file, drawn)
	}
}
