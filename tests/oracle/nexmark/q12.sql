select bidder, window_start, window_end, count(*) as bids
from tumble(bid, p_time, interval '10' second)
group by bidder, window_start, window_end
