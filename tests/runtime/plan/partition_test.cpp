// Buckets of keys: their order, their ranges, and their sizes where few keys have most items.
#include "../../../runtime/plan/partition.hpp"

#include <gtest/gtest.h>

#include <tbb/task_arena.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace topograd::runtime {
namespace {

/// Item k of n; every second one has one of the first `few` keys.
Keyed item(std::uint32_t k, std::uint32_t few, std::uint32_t keys) {
  const auto mixed = static_cast<std::uint32_t>(k * std::uint64_t{2654435761} % 4294967291);
  return {k % 2 == 0 ? mixed % few : few + mixed % (keys - few), k};
}

struct Bucket {
  std::uint32_t first, beyond;
  std::size_t place;
  std::vector<Keyed> items;
};

std::vector<Bucket> buckets_of(std::uint32_t n, std::uint32_t few, std::uint32_t keys) {
  const Partition<> partition(n, keys, [&](std::size_t first, std::size_t count, auto sink) {
    for (std::size_t k = first; k < first + count; ++k)
      sink(item(static_cast<std::uint32_t>(k), few, keys));
  });
  std::mutex mutex;
  std::vector<Bucket> buckets;
  partition.each_bucket([&](std::span<const Keyed> items, std::size_t place, std::uint32_t first,
                            std::uint32_t beyond) {
    const std::lock_guard lock(mutex);
    buckets.push_back({first, beyond, place, {items.begin(), items.end()}});
  });
  std::ranges::sort(buckets, {}, &Bucket::first);
  return buckets;
}

TEST(Partition, BucketsCoverAllKeysAndKeepTheOrderOfItems) {
  struct Row {
    std::uint32_t items, few, keys;
  };
  for (const Row& row :
       {Row{0, 1, 1000}, Row{10, 3, 7}, Row{300'000, 100, 40'000}, Row{300'000, 2000, 5'000'000}}) {
    SCOPED_TRACE(row.keys);
    for (const int threads : {1, 3}) {
      tbb::task_arena(threads).execute([&] {
        std::uint32_t next = 0;
        std::size_t place = 0;
        for (const Bucket& bucket : buckets_of(row.items, row.few, row.keys)) {
          ASSERT_EQ(bucket.first, next);
          ASSERT_EQ(bucket.place, place);
          EXPECT_TRUE(std::ranges::is_sorted(bucket.items, {}, &Keyed::value));
          for (const Keyed& one : bucket.items) {
            ASSERT_TRUE(bucket.first <= one.key && one.key < bucket.beyond);
            ASSERT_EQ(one.key, item(one.value, row.few, row.keys).key);
          }
          next = bucket.beyond;
          place += bucket.items.size();
        }
        EXPECT_EQ(next, row.keys);
        EXPECT_EQ(place, row.items);
      });
    }
  }
}

/// As for the cameras of a scene, which are few beside its points.
TEST(Partition, FewKeysWithMostItemsAreSpreadOverManyBuckets) {
  std::size_t largest = 0;
  for (const Bucket& bucket : buckets_of(300'000, 2000, 5'000'000))
    largest = std::max(largest, bucket.items.size());
  EXPECT_LT(largest, 300'000u / 12);
}

}  // namespace
}  // namespace topograd::runtime
