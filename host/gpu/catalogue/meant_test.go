package catalogue_test

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/catalogue"
)

// A name means a network of the user first, then one of the catalogue. The beginning of several names means none of
// them.
func TestMeant(t *testing.T) {
	own := []string{"vgg19", "wide1", "wide2", "resnetmine"}
	for asked, want := range map[string]string{
		"wide1": "wide1", "vgg19-imagenet": "vgg19", "vgg": "vgg19", "resnet": "resnetmine", "resnet152-imagenet": "resnet152",
	} {
		if got, err := catalogue.Meant(asked, own); err != nil || got != want {
			t.Errorf("%s means %q, %v, expected %s", asked, got, err, want)
		}
	}
	for asked, want := range map[string]string{"wide": "means 2 of", "nothing": "neither in the kernel list", "": "neither"} {
		if got, err := catalogue.Meant(asked, own); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q means %q, %v, expected an error: %s", asked, got, err, want)
		}
	}
	if _, err := catalogue.Meant("nothing", nil); err == nil || !strings.Contains(err.Error(), "is none of") {
		t.Errorf("without a list: %v", err)
	}
}
